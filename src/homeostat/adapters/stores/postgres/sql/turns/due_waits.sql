-- Tool calls past their deadline.
SELECT turn_id, call_id, project, agent_id, tool, status, after_execution, step_id, call_card_id, result_card_id,
    created_at_ms, deadline_ms, answered_at_ms
FROM waits WHERE status = 'pending' AND deadline_ms <= $1 ORDER BY deadline_ms LIMIT $2
