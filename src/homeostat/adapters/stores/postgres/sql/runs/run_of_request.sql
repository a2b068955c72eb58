-- The run that a request made.
SELECT run, version, driver, epoch FROM runs WHERE project = $1 AND request_key = $2
