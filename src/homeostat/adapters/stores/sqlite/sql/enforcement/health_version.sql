-- At which version an agent's health is. A save holds the only lock there is, so it stays so until its commit.
SELECT version FROM patients WHERE project = ?1 AND agent_id = ?2
