-- Keeps what was drawn of one rate limit.
UPDATE rates SET taken = $4, drawn_at_ms = $5 WHERE project = $1 AND policy_id = $2 AND agent_id = $3
