-- What is forbidden for one agent: its own, and what is forbidden for everybody.
SELECT project, agent_id, diagnosis, action, reason, actor, at_ms FROM vetoes
WHERE project = $1 AND agent_id IN ($2, $3)
ORDER BY at_ms, project, agent_id, diagnosis, action
