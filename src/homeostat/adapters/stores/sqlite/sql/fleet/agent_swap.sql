-- An agent's entry, if it is still the one that was read.
UPDATE agents
SET project = ?2, agent_type = ?3, tags = ?4, hostname = ?5, pid = ?6, key_digest = ?7, registered_at_ms = ?8,
    gone_at_ms = ?9, gone_why = ?10, request_digest = ?11, revision = ?12, version = ?13
WHERE agent_id = ?1 AND revision = ?14
