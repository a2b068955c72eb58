-- One turn, with its place in line if it waits.
SELECT t.turn_id, t.project, t.agent_id, t.seq, t.type, t.payload, t.correlation_id, t.source, t.parent_turn_id,
    t.parent_step_id, t.reply_call_id, t.trace_id, t.depth, t.run_id, t.context_box_id, t.output_box_id, t.result_fields,
    t.previous_turn_id, t.created_at_ms, i.starts, i.losses, i.cards
FROM turns AS t
LEFT JOIN inbox AS i ON i.project = t.project AND i.agent_id = t.agent_id AND i.seq = t.seq
WHERE t.turn_id = ?1 AND t.project = ?2
