-- Moves a run on, if nobody has since it was read and, where an epoch is given, its driver is still the same.
UPDATE runs SET version = ?2, status = ?3, live = ?4, ledger_next = ?5, ledger_hash = ?6, run = ?7
WHERE run_id = ?1 AND version = ?2 - 1 AND (?8 IS NULL OR epoch = ?8)
RETURNING version
