-- Takes an agent's process into custody, in place of the one before.
INSERT INTO custodies (project, agent_id, custody) VALUES (?1, ?2, ?3)
ON CONFLICT (project, agent_id) DO UPDATE SET custody = excluded.custody
