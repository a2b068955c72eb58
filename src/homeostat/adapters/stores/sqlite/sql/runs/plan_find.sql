-- The rows of a plan in which a text stands.
SELECT first_number, specs FROM run_plans WHERE run_id = ?1 AND instr(specs, ?2) > 0 ORDER BY first_number
