-- What some tasks delivered.
SELECT number, result FROM run_tasks WHERE run_id = $1 AND result IS NOT NULL AND number = ANY($2::bigint[])
