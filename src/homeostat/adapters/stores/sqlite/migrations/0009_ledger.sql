-- Ledgers on SQLite.
--
-- ledger   what happened in each run, entry after entry, each hashed together with the hash before it. Rows are only ever
--          added, in the transaction of what they tell of, and a run's own row says which one comes next.

CREATE TABLE ledger (
    project TEXT    NOT NULL,
    run_id  TEXT    NOT NULL,
    seq     INTEGER NOT NULL CHECK (seq > 0),
    kind    TEXT    NOT NULL,
    at_ms   INTEGER NOT NULL,
    payload TEXT    NOT NULL,
    hash    TEXT    NOT NULL,
    PRIMARY KEY (run_id, seq)
);
