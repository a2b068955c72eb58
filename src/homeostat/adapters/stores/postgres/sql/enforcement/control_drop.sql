-- Sends an agent no more orders; returns it if it took some.
DELETE FROM controls WHERE project = $1 AND agent_id = $2 RETURNING agent_id
