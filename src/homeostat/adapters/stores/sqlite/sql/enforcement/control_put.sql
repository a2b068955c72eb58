-- Says where an agent takes orders.
INSERT INTO controls (project, agent_id, control) VALUES (?1, ?2, ?3)
ON CONFLICT (project, agent_id) DO UPDATE SET control = excluded.control
