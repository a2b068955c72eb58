-- Writes planned tasks, many a row.
INSERT INTO run_plans (run_id, first_number, last_number, specs) VALUES (?1, ?2, ?3, ?4)
