-- Says so if nothing is left of a run's ledger.
UPDATE runs SET ledger_kept = 0 WHERE run_id = $1 AND NOT EXISTS (SELECT 1 FROM ledger WHERE run_id = $1)
RETURNING run_id
