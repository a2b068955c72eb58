-- Takes a turn out of the line.
DELETE FROM inbox WHERE project = ? AND agent_id = ? AND seq = ?
