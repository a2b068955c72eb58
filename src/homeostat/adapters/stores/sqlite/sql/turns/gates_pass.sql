-- What some runs may start; ?1 is a JSON list. A save holds the only lock there is, so it stays true until its commit.
SELECT run_id, state FROM run_gates WHERE run_id IN (SELECT value FROM json_each(?1))
