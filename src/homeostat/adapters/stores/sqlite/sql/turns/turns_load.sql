-- Some turns; ?1 is a JSON list of [project, turn_id].
SELECT t.turn_id, t.project, t.agent_id, t.seq, t.type, t.payload, t.correlation_id, t.source, t.parent_turn_id,
    t.parent_step_id, t.reply_call_id, t.trace_id, t.depth, t.run_id, t.context_box_id, t.output_box_id, t.result_fields,
    t.previous_turn_id, t.created_at_ms, t.context_until
FROM json_each(?1) AS wanted
JOIN turns AS t ON t.project = json_extract(wanted.value, '$[0]') AND t.turn_id = json_extract(wanted.value, '$[1]')
