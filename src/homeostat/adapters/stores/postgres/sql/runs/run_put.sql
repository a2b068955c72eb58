-- A new run, unless the same request made it before; returns it.
INSERT INTO runs (run_id, project, version, status, live, driver, epoch, ledger_next, ledger_hash, request_key, run)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (project, request_key) WHERE request_key IS NOT NULL DO NOTHING
RETURNING run_id
