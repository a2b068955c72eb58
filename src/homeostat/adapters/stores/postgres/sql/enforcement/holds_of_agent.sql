-- What is wanted of one agent.
SELECT hold FROM enforcements WHERE project = $1 AND agent_id = $2
