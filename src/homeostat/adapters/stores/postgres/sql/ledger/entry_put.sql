-- Append one entry; two entries of one number cannot be.
INSERT INTO ledger (project, run_id, seq, kind, at_ms, payload, hash) VALUES ($1, $2, $3, $4, $5, $6, $7)
