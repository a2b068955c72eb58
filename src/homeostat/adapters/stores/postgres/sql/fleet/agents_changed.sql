-- Agents past a revision, in the order in which they changed.
SELECT agent_id, project, agent_type, tags, hostname, pid, key_digest, registered_at_ms, gone_at_ms, gone_why,
    request_digest, revision, version
FROM agents WHERE revision > $1 ORDER BY revision LIMIT $2
