-- What is known of a box that has not ended: whether there is one, the turn it was born with, and another one that refers to a
-- card born in it, of which the names begin alike.
SELECT
    EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = $2 AND c.project = $1)
        OR EXISTS (SELECT 1 FROM box_owners AS b WHERE b.project = $1 AND b.box_id = 'box_' || $2),
    (SELECT t.turn_id FROM turns AS t WHERE t.project = $1 AND t.turn_id = 'turn_' || $2),
    (
        SELECT 'box_' || r.scope FROM cards AS r
        WHERE r.reference > 'card_' || $2 || '_' AND r.reference < 'card_' || $2 || '`' LIMIT 1
    )
WHERE NOT EXISTS (
    SELECT 1 FROM box_owners AS o WHERE o.project = $1 AND o.box_id = 'box_' || $2 AND o.agent_id = ''
)
