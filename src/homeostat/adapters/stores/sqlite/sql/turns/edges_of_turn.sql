-- Every message to or from one turn: the request that opened it, its children's, and the results it was given.
SELECT edge_id, project, primitive, phase, source_agent_id, target_agent_id, turn_id, parent_turn_id, call_id,
    correlation_id, trace_id, depth, created_at_ms
FROM edges
WHERE project = ?1 AND (turn_id = ?2 OR parent_turn_id = ?2) AND edge_id > ?3
ORDER BY edge_id LIMIT ?4
