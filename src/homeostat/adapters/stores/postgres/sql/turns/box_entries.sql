-- A page of a box, in order.
SELECT project, scope, position, type, content, digest, author, created_at_ms, reference
FROM cards WHERE project = $1 AND scope = $2 AND position > $3 ORDER BY position LIMIT $4
