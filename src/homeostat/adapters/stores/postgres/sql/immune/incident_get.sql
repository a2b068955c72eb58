-- One incident.
SELECT incident FROM incidents WHERE project = $1 AND incident_id = $2
