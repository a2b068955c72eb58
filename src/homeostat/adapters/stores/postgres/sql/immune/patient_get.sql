-- One agent's health.
SELECT patient FROM patients WHERE project = $1 AND agent_id = $2
