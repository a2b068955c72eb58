-- Those of some turns that have no deliverable yet and are not worked on.
SELECT turn.value FROM json_each(?3) AS turn
WHERE turn.value NOT IN (
        SELECT h.turn_id FROM heads AS h
        WHERE h.project = ?1 AND h.agent_id IN (SELECT value FROM json_each(?2)) AND h.status IN ('running', 'suspended')
    )
    AND NOT EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = substr(turn.value, 6) AND c.position = 0)
