-- Moves a task on, in the transaction that swaps its run.
UPDATE run_tasks SET status = ?3, attempt = ?4, turn_id = ?5, agent_id = ?6, not_before_ms = ?7, started_at_ms = ?8,
    ended_at_ms = ?9, approved_by = ?10, error = ?11, result = ?12, noted = ?13
WHERE run_id = ?1 AND number = ?2
