-- Lets a turn wait for a tool call.
INSERT INTO waits (turn_id, call_id, project, agent_id, tool, status, after_execution, step_id, call_card_id, result_card_id,
    created_at_ms, deadline_ms, answered_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
