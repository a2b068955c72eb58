-- Adds to what is known of a remedy.
INSERT INTO lessons (project, agent_id, diagnosis, action, cured, failed, failed_at_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7)
ON CONFLICT (project, agent_id, diagnosis, action) DO UPDATE SET
    cured = lessons.cured + excluded.cured,
    failed = lessons.failed + excluded.failed,
    failed_at_ms = CASE WHEN excluded.failed > 0 THEN excluded.failed_at_ms ELSE lessons.failed_at_ms END
