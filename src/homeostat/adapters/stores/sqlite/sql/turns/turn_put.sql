-- Writes what was asked; never changed afterwards but for its boxes.
INSERT INTO turns (turn_id, project, agent_id, seq, type, payload, correlation_id, source, parent_turn_id, parent_step_id,
    reply_call_id, trace_id, depth, run_id, context_box_id, output_box_id, result_fields, previous_turn_id, created_at_ms,
    context_until)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
