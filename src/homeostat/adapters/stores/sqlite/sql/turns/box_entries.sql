-- A page of a box, in order; a reference brings the content of the card it points to.
SELECT c.project, c.scope, c.position, c.type, c.content, c.digest, c.author, c.created_at_ms, c.reference
FROM cards AS c
WHERE c.project = ?1 AND c.scope = ?2 AND c.position > ?3
ORDER BY c.position
LIMIT ?4
