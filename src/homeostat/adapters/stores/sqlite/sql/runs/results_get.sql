-- What some tasks delivered, as far as others ask for it.
SELECT number, result FROM run_remains WHERE run_id = ?1 AND result IS NOT NULL AND number IN (SELECT value FROM json_each(?2))
