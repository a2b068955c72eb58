-- The versions of agents about whom something is still to be done.
SELECT project, agent_id, version FROM patients
WHERE phase IN ('draining', 'quarantined', 'healing', 'probation', 'exhausted')
