-- An agent's incidents, newest first.
SELECT incident FROM incidents
WHERE project = $1 AND agent_id = $4 AND incident_id < $2
ORDER BY incident_id DESC LIMIT $3
