-- A run's tasks in their order, without their results.
SELECT number, status, attempt, turn_id, agent_id, not_before_ms, started_at_ms, ended_at_ms, approved_by, error, NULL, spec, noted
FROM run_tasks WHERE run_id = ?1 AND number > ?2 AND (?3 = '' OR status = ?3)
ORDER BY number LIMIT ?4
