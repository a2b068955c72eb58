-- What some turns wrote, deliverables included; ?1 is a JSON list of their scopes.
SELECT c.project, c.scope, c.position, c.type, c.content, c.digest, c.author, c.created_at_ms, c.reference
FROM json_each(?1) AS wanted JOIN cards AS c ON c.scope = wanted.value
WHERE c.reference IS NULL
ORDER BY c.scope, c.position
