-- Says what is told of tasks.
INSERT INTO run_remains SELECT * FROM unnest($1::run_remains[]) WHERE EXISTS (SELECT FROM go)
ON CONFLICT (run_id, number) DO UPDATE SET error = excluded.error, result = excluded.result, noted = excluded.noted
