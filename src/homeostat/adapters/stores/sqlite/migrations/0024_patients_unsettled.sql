-- Agents about whom something is still to be done: every process looks again and again whether it knows how they stand.

CREATE INDEX patients_unsettled ON patients (project, agent_id, version)
    WHERE phase IN ('draining', 'quarantined', 'healing', 'probation', 'exhausted');
