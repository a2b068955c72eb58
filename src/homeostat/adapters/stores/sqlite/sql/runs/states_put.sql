-- Says how far tasks are, in the transaction that swaps their run.
INSERT INTO run_states (run_id, place, states) VALUES (?1, ?2, ?3)
ON CONFLICT (run_id, place) DO UPDATE SET states = excluded.states
