-- What some tasks delivered.
SELECT number, result FROM run_tasks WHERE run_id = ?1 AND result IS NOT NULL AND number IN (SELECT value FROM json_each(?2))
