-- Sets a policy in place of the one of that id.
INSERT INTO policies (project, policy_id, agent_id, action, origin, reason, terms, created_at_ms, expires_at_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (project, policy_id) DO UPDATE SET agent_id = excluded.agent_id, action = excluded.action,
    origin = excluded.origin, reason = excluded.reason, terms = excluded.terms,
    created_at_ms = excluded.created_at_ms, expires_at_ms = excluded.expires_at_ms
