-- Why an agent gets no new turns.
SELECT reason, actor, at_ms FROM cordons WHERE project = $1 AND agent_id = $2
