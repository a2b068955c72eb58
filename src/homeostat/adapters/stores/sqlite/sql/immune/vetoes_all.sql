-- All that is forbidden, oldest first.
SELECT project, agent_id, diagnosis, action, reason, actor, at_ms FROM vetoes
ORDER BY at_ms, project, agent_id, diagnosis, action
