-- Nothing is told of some tasks any more.
DELETE FROM run_remains WHERE run_id = $1 AND number = ANY($2::bigint[]) AND EXISTS (SELECT FROM go)
