-- Everything one agent remembers.
SELECT key, value FROM memory WHERE project = $1 AND agent_id = $2 ORDER BY key
