-- Lets an agent have turns again; returns a row if it was kept from them.
DELETE FROM cordons WHERE project = $1 AND agent_id = $2
RETURNING agent_id
