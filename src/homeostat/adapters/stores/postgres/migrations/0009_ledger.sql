-- Ledgers on PostgreSQL.
--
-- ledger   what happened in each run, entry after entry, each hashed together with the hash before it. Rows are only ever
--          added, in the transaction of what they tell of, and a run's own row says which one comes next.

CREATE TABLE ledger (
    project text COLLATE "C" NOT NULL,
    run_id  text COLLATE "C" NOT NULL,
    seq     bigint           NOT NULL CHECK (seq > 0),
    kind    text             NOT NULL,
    at_ms   bigint           NOT NULL,
    payload text             NOT NULL,
    hash    text             NOT NULL,
    PRIMARY KEY (run_id, seq)
);
