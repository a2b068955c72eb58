-- A turn's end: the card at its fixed place, with the box its reader finds it in.
SELECT c.project, c.scope, c.position, c.type, c.content, c.digest, c.author, c.created_at_ms, c.reference,
    t.output_box_id
FROM cards AS c LEFT JOIN turns AS t ON t.turn_id = 'turn_' || c.scope AND t.project = c.project
WHERE c.project = ?1 AND c.scope = ?2 AND c.position = 0 AND c.type = 'task.deliverable'
