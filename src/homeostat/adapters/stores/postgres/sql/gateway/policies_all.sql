-- Every policy, expired ones included.
SELECT project, policy_id, agent_id, action, origin, reason, terms, created_at_ms, expires_at_ms
FROM policies ORDER BY project, policy_id
