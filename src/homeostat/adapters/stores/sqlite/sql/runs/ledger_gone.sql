-- Nothing is left of a run's ledger.
UPDATE runs SET ledger_kept = 0 WHERE run_id = ?1 RETURNING run_id
