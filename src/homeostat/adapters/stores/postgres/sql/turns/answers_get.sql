-- The first answers to some keys; $1 are projects, $2 keys.
SELECT a.project, a.key, a.fingerprint, a.answer, a.created_at_ms
FROM unnest($1::text[], $2::text[]) AS wanted (project, key)
JOIN answers AS a ON a.project = wanted.project AND a.key = wanted.key
