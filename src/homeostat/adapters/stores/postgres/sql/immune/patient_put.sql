-- A new patient, unless somebody else was first; returns it.
INSERT INTO patients (project, agent_id, version, phase, patient) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (project, agent_id) DO NOTHING
RETURNING version
