-- What some tasks delivered, as far as others ask for it.
SELECT number, result FROM run_remains WHERE run_id = $1 AND result IS NOT NULL AND number = ANY($2::bigint[])
