-- What was drawn of one rate limit, by the second, held until the transaction ends; the first to ask makes the row.
INSERT INTO rates AS known (project, policy_id, agent_id, taken, drawn_at_ms) VALUES ($1, $2, $3, '[]', 0)
ON CONFLICT (project, policy_id, agent_id) DO UPDATE SET taken = known.taken RETURNING taken
