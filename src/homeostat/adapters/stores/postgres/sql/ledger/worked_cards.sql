-- What some turns wrote, deliverables included; $1 is a list of their scopes.
SELECT c.project, c.scope, c.position, c.type, c.content, c.digest, c.author, c.created_at_ms, c.reference
FROM unnest($1::text[]) AS wanted (scope) JOIN cards AS c ON c.scope = wanted.scope
WHERE c.reference IS NULL
ORDER BY c.scope, c.position
