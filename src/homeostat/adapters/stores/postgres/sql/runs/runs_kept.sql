-- Runs that ended, were made between two others, and have their ledgers in the store; oldest first.
SELECT run, version, driver, epoch FROM runs
WHERE ledger_kept = 1 AND live = 0 AND run_id > $1 AND run_id < $2 AND status IN ('completed', 'failed', 'killed')
ORDER BY run_id LIMIT $3
