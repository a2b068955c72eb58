-- The live runs of one driver.
SELECT run_id, project, version FROM runs WHERE live = 1 AND driver = $1
