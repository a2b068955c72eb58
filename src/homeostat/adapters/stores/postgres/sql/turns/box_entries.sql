-- A page of a box, in order. A cursor may lie beyond every position there can be.
SELECT project, scope, position, type, content, digest, author, created_at_ms, reference
FROM cards WHERE project = $1 AND scope = $2 AND position > $3::bigint ORDER BY position LIMIT $4
