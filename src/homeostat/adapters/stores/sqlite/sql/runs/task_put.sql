-- Writes a planned task.
INSERT INTO run_tasks (run_id, number, name, status, attempt, turn_id, agent_id, not_before_ms, started_at_ms, ended_at_ms,
    approved_by, error, result, spec, noted)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
