-- Writes planned tasks, many a row.
INSERT INTO run_plans SELECT * FROM unnest($1::run_plans[]) WHERE EXISTS (SELECT FROM go)
