-- Keeps what was drawn of one rate limit.
INSERT INTO rates (project, policy_id, agent_id, taken, drawn_at_ms) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (project, policy_id, agent_id) DO UPDATE SET taken = excluded.taken, drawn_at_ms = excluded.drawn_at_ms
