-- Every message to or from one turn: the request that opened it, its children's, and the results it was given.
SELECT edge_id, project, primitive, phase, source_agent_id, target_agent_id, turn_id, parent_turn_id, call_id,
    correlation_id, trace_id, depth, created_at_ms
FROM edges WHERE turn_id = $2 AND project = $1 AND edge_id > $3
UNION ALL
SELECT edge_id, project, primitive, phase, source_agent_id, target_agent_id, turn_id, parent_turn_id, call_id,
    correlation_id, trace_id, depth, created_at_ms
FROM edges WHERE parent_turn_id = $2 AND phase = 'request' AND project = $1 AND edge_id > $3
ORDER BY edge_id LIMIT $4
