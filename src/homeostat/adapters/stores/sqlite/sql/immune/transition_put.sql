-- Notes a step.
INSERT INTO transitions (transition_id, project, agent_id, transition) VALUES (?1, ?2, ?3, ?4)
