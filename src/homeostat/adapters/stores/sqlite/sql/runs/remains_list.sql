-- What is told of the tasks behind one number and up to another, without their results.
SELECT number, error, NULL, noted FROM run_remains WHERE run_id = ?1 AND number > ?2 AND number <= ?3
