-- At which version an agent's health is; nobody moves it before this transaction ends.
SELECT version FROM patients WHERE project = $1 AND agent_id = $2 FOR SHARE
