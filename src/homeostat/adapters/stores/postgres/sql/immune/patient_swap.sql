-- Moves a patient on, if nobody has since it was read; returns it.
UPDATE patients SET version = $3::bigint, phase = $4, patient = $5
WHERE project = $1 AND agent_id = $2 AND version = $3::bigint - 1
RETURNING version
