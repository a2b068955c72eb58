-- A new agent, unless its id or its key is taken.
INSERT INTO agents (agent_id, project, agent_type, tags, hostname, pid, key_digest, registered_at_ms, gone_at_ms,
    gone_why, request_digest, revision, version)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT DO NOTHING
