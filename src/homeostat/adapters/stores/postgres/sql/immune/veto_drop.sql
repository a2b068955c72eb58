-- Allows a remedy again; returns it, if it was forbidden.
DELETE FROM vetoes WHERE project = $1 AND agent_id = $2 AND diagnosis = $3 AND action = $4
RETURNING at_ms
