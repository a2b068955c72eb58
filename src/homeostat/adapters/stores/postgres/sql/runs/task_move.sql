-- Moves tasks on, in the transaction that swaps their run.
UPDATE run_tasks AS t SET status = u.status, attempt = u.attempt, turn_id = u.turn_id, agent_id = u.agent_id,
    not_before_ms = u.not_before_ms, started_at_ms = u.started_at_ms, ended_at_ms = u.ended_at_ms,
    approved_by = u.approved_by, error = u.error, result = u.result,
    noted = u.noted
FROM unnest($1::run_tasks[]) AS u
WHERE t.run_id = u.run_id AND t.number = u.number
