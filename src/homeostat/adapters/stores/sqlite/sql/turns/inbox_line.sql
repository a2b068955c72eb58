-- The front of an agent's line, with the turns that wait in it.
SELECT t.turn_id, t.project, t.agent_id, t.seq, t.type, t.payload, t.correlation_id, t.source, t.parent_turn_id,
    t.parent_step_id, t.reply_call_id, t.trace_id, t.depth, t.run_id, t.context_box_id, t.output_box_id,
    t.result_fields, t.previous_turn_id, t.created_at_ms, t.context_until, i.starts, i.losses, i.cards
FROM inbox AS i JOIN turns AS t ON t.project = i.project AND t.turn_id = i.turn_id
WHERE i.project = ?1 AND i.agent_id = ?2 AND i.seq > ?3 ORDER BY i.seq LIMIT ?4
