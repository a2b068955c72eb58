-- Says how far tasks are, in the transaction that swaps their run.
INSERT INTO run_states SELECT * FROM unnest($1::run_states[]) WHERE EXISTS (SELECT FROM go)
ON CONFLICT (run_id, place) DO UPDATE SET states = excluded.states
