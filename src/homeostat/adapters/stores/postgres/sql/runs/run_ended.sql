-- The status of a run whose gate is closed.
SELECT r.status FROM run_gates AS g JOIN runs AS r ON r.run_id = g.run_id WHERE g.run_id = $1 AND g.state = 'closed'
