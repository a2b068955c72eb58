-- Forbids a remedy, unless that was done before: the first word stands, and is what is returned.
INSERT INTO vetoes (project, agent_id, diagnosis, action, reason, actor, at_ms)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
ON CONFLICT (project, agent_id, diagnosis, action) DO UPDATE SET at_ms = vetoes.at_ms
RETURNING project, agent_id, diagnosis, action, reason, actor, at_ms
