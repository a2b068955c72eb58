-- Those of some agents that are given no turns: they left, or, where that is asked for, their gates are shut.
SELECT wanted.value
FROM json_each(?2) AS wanted
LEFT JOIN heads AS h ON h.project = ?1 AND h.agent_id = wanted.value
LEFT JOIN agents AS a ON a.agent_id = wanted.value AND a.project = ?1
WHERE a.gone_at_ms IS NOT NULL OR (?3 AND h.gate <> 'open')
