-- Whether a run's ledger is still in the store: those of runs that ended long ago leave it.

ALTER TABLE runs ADD COLUMN ledger_kept integer NOT NULL DEFAULT 1;

CREATE INDEX runs_kept ON runs (run_id) WHERE ledger_kept = 1 AND live = 0;
