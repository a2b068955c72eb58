-- Says what a run may start from here on.
INSERT INTO run_gates (run_id, state) SELECT $1, $2 WHERE EXISTS (SELECT FROM go)
ON CONFLICT (run_id) DO UPDATE SET state = excluded.state
