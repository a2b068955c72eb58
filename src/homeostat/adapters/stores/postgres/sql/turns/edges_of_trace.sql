-- Every message of one trace. The turn that began it is found by its id, the others by their trace.
SELECT e.edge_id, e.project, e.primitive, e.phase, e.source_agent_id, e.target_agent_id, e.turn_id, e.parent_turn_id,
    e.call_id, e.correlation_id, e.trace_id, e.depth, e.created_at_ms
FROM (
    SELECT turn_id FROM turns WHERE trace_id = $2 AND trace_id <> '00000000' || substr(turn_id, 6)
    UNION ALL
    SELECT turn_id FROM turns WHERE project = $1 AND turn_id = 'turn_' || substr($2, 9) AND trace_id = $2
) AS traced
-- OFFSET 0 keeps the view whole, so that each of its halves is looked up by turn instead of read through.
CROSS JOIN LATERAL (SELECT * FROM edges WHERE edges.project = $1 AND edges.turn_id = traced.turn_id OFFSET 0) AS e
WHERE e.edge_id > $3
ORDER BY e.edge_id LIMIT $4
