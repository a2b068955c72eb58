-- Those of some turns that have no deliverable yet and are not worked on.
SELECT turn.value
FROM json_each(?2) AS agent JOIN json_each(?3) AS turn ON turn.key = agent.key
LEFT JOIN heads AS h ON h.project = ?1 AND h.agent_id = agent.value AND h.turn_id = turn.value
WHERE (h.status IS NULL OR h.status = 'dispatched')
    AND NOT EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = substr(turn.value, 6) AND c.position = 0)
