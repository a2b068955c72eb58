-- How far a run's tasks are, from one row to another.
SELECT place, states FROM run_states WHERE run_id = $1 AND place >= $2 AND place <= $3
