-- One agent by its id.
SELECT agent_id, project, agent_type, tags, hostname, pid, key_digest, registered_at_ms, gone_at_ms, gone_why,
    request_digest, revision, version
FROM agents
WHERE agent_id = ?1
