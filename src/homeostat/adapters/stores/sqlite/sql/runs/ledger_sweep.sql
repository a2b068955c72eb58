-- Takes the first entries of a run's ledger away.
DELETE FROM ledger WHERE run_id = ?1 AND seq < (SELECT min(seq) FROM ledger WHERE run_id = ?1) + ?2 RETURNING seq
