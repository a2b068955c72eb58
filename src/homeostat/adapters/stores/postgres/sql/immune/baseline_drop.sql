-- Forgets what was normal for an agent.
DELETE FROM baselines WHERE project = $1 AND agent_id = $2
