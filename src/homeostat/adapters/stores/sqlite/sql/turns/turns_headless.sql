-- The agents that have turns and no head, and how many turns.
SELECT t.project, t.agent_id, count(*) FROM turns AS t
WHERE NOT EXISTS (SELECT 1 FROM heads AS h WHERE h.project = t.project AND h.agent_id = t.agent_id)
GROUP BY t.project, t.agent_id ORDER BY t.project, t.agent_id
