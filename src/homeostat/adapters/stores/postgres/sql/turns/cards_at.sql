-- Some cards by their birthplaces; $2 are scopes, $3 positions.
SELECT c.project, c.scope, c.position, c.type, c.content, c.digest, c.author, c.created_at_ms, c.reference
FROM unnest($2::text[], $3::integer[]) AS wanted (scope, position)
JOIN cards AS c ON c.scope = wanted.scope AND c.position = wanted.position
WHERE c.project = $1
