-- The rows of some runs' states in which there is a task that is marked as running.
SELECT run_id, states FROM run_states
WHERE run_id = ANY($1::text[]) AND strpos(states, '["running"') > 0
