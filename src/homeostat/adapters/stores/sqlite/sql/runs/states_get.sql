-- The rows in which the states of some tasks stand.
SELECT place, states FROM run_states WHERE run_id = ?1 AND place IN (SELECT value FROM json_each(?2))
