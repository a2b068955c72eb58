-- Says what is told of tasks.
INSERT INTO run_remains (run_id, number, error, result, noted) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (run_id, number) DO UPDATE SET error = excluded.error, result = excluded.result, noted = excluded.noted
