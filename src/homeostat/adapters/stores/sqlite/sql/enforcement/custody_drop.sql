-- Lets an agent's process go.
DELETE FROM custodies WHERE project = ?1 AND agent_id = ?2
