-- Nothing is told of a task any more.
DELETE FROM run_remains WHERE run_id = ?1 AND number = ?2
