-- Remembers a value, in place of the one before.
INSERT INTO memory (project, agent_id, key, value, updated_at_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (project, agent_id, key) DO UPDATE SET value = excluded.value, updated_at_ms = excluded.updated_at_ms
