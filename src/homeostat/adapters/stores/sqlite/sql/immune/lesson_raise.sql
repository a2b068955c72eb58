-- Brings what is known of a remedy up to what is known elsewhere; counts only ever grow, so the larger one knows more.
INSERT INTO lessons (project, agent_id, diagnosis, action, cured, failed, failed_at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (project, agent_id, diagnosis, action) DO UPDATE SET
    cured = max(lessons.cured, excluded.cured),
    failed = max(lessons.failed, excluded.failed),
    failed_at_ms = max(lessons.failed_at_ms, excluded.failed_at_ms)
