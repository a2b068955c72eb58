-- Turns with cards that say they are deliverables and lie where none does, and how many such cards each has.
SELECT t.turn_id, count(*) FROM cards AS c JOIN turns AS t ON t.turn_id = 'turn_' || c.scope
WHERE c.type = 'task.deliverable' AND c.position <> 0 AND c.reference IS NULL
GROUP BY t.turn_id ORDER BY t.turn_id
