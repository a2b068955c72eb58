-- Forgets a value.
DELETE FROM memory WHERE project = ? AND agent_id = ? AND key = ?
