-- A page of a run's ledger, in order. $1 is the project, $2 the run, $3 the entry before the first.
SELECT project, run_id, seq, kind, at_ms, payload, hash
FROM ledger WHERE run_id = $2 AND project = $1 AND seq > $3
ORDER BY seq LIMIT $4
