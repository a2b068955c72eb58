-- Every message of one trace. The turn that began it is found by its id, the others by their trace.
SELECT edge_id, project, primitive, phase, source_agent_id, target_agent_id, turn_id, parent_turn_id, call_id,
    correlation_id, trace_id, depth, created_at_ms
FROM edges
WHERE project = ?1 AND edge_id > ?3 AND turn_id IN (
    SELECT turn_id FROM turns WHERE trace_id = ?2 AND trace_id <> '00000000' || substr(turn_id, 6)
    UNION ALL
    SELECT turn_id FROM turns WHERE project = ?1 AND turn_id = 'turn_' || substr(?2, 9) AND trace_id = ?2
)
ORDER BY edge_id LIMIT ?4
