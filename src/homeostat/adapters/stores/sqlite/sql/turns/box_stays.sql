-- Whether a box is there, by its name.
SELECT (
    EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = substr(?2, 5) AND c.project = ?1)
    OR EXISTS (SELECT 1 FROM turns AS t WHERE t.project = ?1 AND t.turn_id = 'turn_' || substr(?2, 5))
    OR EXISTS (SELECT 1 FROM box_owners AS b WHERE b.project = ?1 AND b.box_id = ?2)
) AND NOT EXISTS (SELECT 1 FROM box_owners AS o WHERE o.project = ?1 AND o.box_id = ?2 AND o.agent_id = '')
