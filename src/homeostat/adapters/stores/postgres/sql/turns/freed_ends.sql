-- Forgets ends of forgotten turns to which no box refers any more, where no other card of the turn is left. $1 are scopes.
DELETE FROM cards
WHERE scope = ANY ($1::text[]) AND position = 0 AND type = 'task.deliverable'
AND NOT EXISTS (
    SELECT 1 FROM cards AS born WHERE born.scope = cards.scope AND born.position > 0
) AND NOT EXISTS (
    SELECT 1 FROM turns AS t WHERE t.project = cards.project AND t.turn_id = 'turn_' || cards.scope
) AND NOT EXISTS (
    SELECT 1 FROM box_owners AS o WHERE o.project = cards.project AND o.box_id = 'box_' || cards.scope
) AND NOT EXISTS (
    SELECT 1 FROM cards AS other
    WHERE other.reference = 'card_' || cards.scope || '_' || cards.position || '_' || cards.digest
)
