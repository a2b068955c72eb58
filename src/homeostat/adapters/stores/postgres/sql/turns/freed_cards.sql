-- Forgets cards that retention left when it forgot their turns, and to which no box refers any more. That they are a turn's, its end
-- tells, which lies at 0 and stays as long as any of them. $1 are scopes, $2 positions.
DELETE FROM cards
WHERE (scope, position) IN (SELECT w.scope, w.position FROM unnest($1::text[], $2::integer[]) AS w (scope, position)) AND position > 0
AND EXISTS (
    SELECT 1 FROM cards AS born WHERE born.scope = cards.scope AND born.position = 0 AND born.type = 'task.deliverable'
) AND NOT EXISTS (
    SELECT 1 FROM turns AS t WHERE t.project = cards.project AND t.turn_id = 'turn_' || cards.scope
) AND NOT EXISTS (
    SELECT 1 FROM box_owners AS o WHERE o.project = cards.project AND o.box_id = 'box_' || cards.scope
) AND NOT EXISTS (
    SELECT 1 FROM cards AS other
    WHERE other.reference = 'card_' || cards.scope || '_' || cards.position || '_' || cards.digest
)
