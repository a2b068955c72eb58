-- Says what a run may start from here on.
INSERT INTO run_gates (run_id, state) VALUES (?1, ?2) ON CONFLICT (run_id) DO UPDATE SET state = excluded.state
