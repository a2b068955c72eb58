-- Those of some turns that have no deliverable yet and are not worked on.
SELECT wanted.turn_id
FROM unnest($2::text[], $3::text[]) AS wanted (agent_id, turn_id)
LEFT JOIN heads AS h ON h.project = $1 AND h.agent_id = wanted.agent_id AND h.turn_id = wanted.turn_id
WHERE (h.status IS NULL OR h.status = 'dispatched')
    AND NOT EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = substr(wanted.turn_id, 6) AND c.position = 0)
