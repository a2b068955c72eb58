-- Forgets a patient, if nobody has moved it since it was read; returns it.
DELETE FROM patients WHERE project = $1 AND agent_id = $2 AND version = $3::bigint
RETURNING version
