-- Takes the first rows of a run's ledger away, about as many entries as asked for and one row at the least.
DELETE FROM ledger WHERE run_id = ?1 AND first_seq < (SELECT min(first_seq) FROM ledger WHERE run_id = ?1) + ?2
RETURNING last_seq - first_seq + 1
