-- Keeps what is wanted of a strategy, in place of what was.
INSERT INTO enforcements (project, agent_id, strategy, hold) VALUES ($1, $2, $3, $4)
ON CONFLICT (project, agent_id, strategy) DO UPDATE SET hold = excluded.hold
