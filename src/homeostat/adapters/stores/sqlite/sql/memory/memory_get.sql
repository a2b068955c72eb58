-- Everything one agent remembers.
SELECT key, value FROM memory WHERE project = ? AND agent_id = ? ORDER BY key
