-- Writes how an operation ended, once.
UPDATE operations SET held_until_ms = NULL, record = $3
WHERE project = $1 AND operation_id = $2 AND held_until_ms IS NOT NULL
