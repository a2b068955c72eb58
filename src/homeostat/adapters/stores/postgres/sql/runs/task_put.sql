-- Writes planned tasks.
INSERT INTO run_tasks SELECT * FROM unnest($1::run_tasks[])
