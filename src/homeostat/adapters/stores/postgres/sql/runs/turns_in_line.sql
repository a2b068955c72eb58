-- Those of some turns that have no deliverable yet and are not worked on.
SELECT turn.id FROM unnest($3::text[]) AS turn (id)
WHERE turn.id NOT IN (
        SELECT h.turn_id FROM heads AS h
        WHERE h.project = $1 AND h.agent_id = ANY($2::text[]) AND h.status IN ('running', 'suspended')
    )
    AND NOT EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = substr(turn.id, 6) AND c.position = 0)
