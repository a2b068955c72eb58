-- Keeps new turns from an agent; a later order replaces the reason.
INSERT INTO cordons (project, agent_id, reason, actor, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (project, agent_id) DO UPDATE SET reason = excluded.reason, actor = excluded.actor, at_ms = excluded.at_ms
