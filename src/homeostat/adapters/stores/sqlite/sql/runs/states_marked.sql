-- The rows of a run's states in which there is a task that is marked as running.
SELECT place, states FROM run_states WHERE run_id = ?1 AND instr(states, '["running"') > 0
