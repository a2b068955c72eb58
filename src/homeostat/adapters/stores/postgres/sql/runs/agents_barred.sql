-- Those of some agents that are given no turns: they left, or, where that is asked for, their gates are shut.
SELECT wanted.agent_id
FROM unnest($2::text[]) AS wanted (agent_id)
LEFT JOIN heads AS h ON h.project = $1 AND h.agent_id = wanted.agent_id
LEFT JOIN agents AS a ON a.agent_id = wanted.agent_id AND a.project = $1
WHERE a.gone_at_ms IS NOT NULL OR ($3::boolean AND h.gate <> 'open')
