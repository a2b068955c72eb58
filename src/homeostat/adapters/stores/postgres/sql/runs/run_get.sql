-- One run.
SELECT run, version, driver, epoch FROM runs WHERE run_id = $2 AND project = $1
