-- One task by its name, with its result.
SELECT number, status, attempt, turn_id, agent_id, not_before_ms, started_at_ms, ended_at_ms, approved_by, error, result, spec, noted
FROM run_tasks WHERE run_id = $1 AND name = $2
