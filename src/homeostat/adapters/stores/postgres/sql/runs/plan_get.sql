-- The rows of a plan that hold the tasks behind one number and up to another.
SELECT first_number, specs FROM run_plans
WHERE run_id = $1 AND last_number > $2 AND first_number <= $3
ORDER BY first_number
