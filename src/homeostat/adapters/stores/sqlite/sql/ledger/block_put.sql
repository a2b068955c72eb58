-- Append entries that were written together; two entries of one number cannot be.
INSERT INTO ledger (run_id, first_seq, last_seq, project, lines) VALUES (?, ?, ?, ?, ?)
