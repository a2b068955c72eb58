-- Writes an incident, in place of what was known of it before.
INSERT INTO incidents (incident_id, project, agent_id, incident) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (incident_id) DO UPDATE SET incident = excluded.incident
