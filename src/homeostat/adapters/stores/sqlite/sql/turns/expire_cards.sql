-- Forgets the cards of finished turns but for those another box refers to, and for boxes that have a writer: what later turns
-- remember lies there, too, and no place in them is taken twice. ?1 is a JSON list of turn ids.
DELETE FROM cards
WHERE scope IN (SELECT substr(value, 6) FROM json_each(?1)) AND NOT EXISTS (
    SELECT 1 FROM box_owners AS o WHERE o.project = cards.project AND o.box_id = 'box_' || cards.scope
) AND NOT EXISTS (
    SELECT 1 FROM cards AS other
    WHERE other.reference = 'card_' || cards.scope || '_' || cards.position || '_' || cards.digest
)
