-- The rows of some runs' states in which there is a task that is marked as running.
SELECT run_id, states FROM run_states
WHERE run_id IN (SELECT value FROM json_each(?1)) AND instr(states, '["running"') > 0
