-- Ledgers of runs that nobody knows.
SELECT DISTINCT l.project, l.run_id FROM ledger AS l
WHERE NOT EXISTS (SELECT 1 FROM runs AS r WHERE r.run_id = l.run_id) ORDER BY l.project, l.run_id
