-- Ledgers as rows of many entries. Entries of one transaction stand in one row, each as the very line that was hashed: a
-- row, its index and seven columns for each entry cost more than making the entry did.

CREATE TABLE ledger_blocks (
    run_id    TEXT    NOT NULL,
    first_seq INTEGER NOT NULL CHECK (first_seq > 0),
    last_seq  INTEGER NOT NULL CHECK (last_seq >= first_seq),
    project   TEXT    NOT NULL,
    lines     TEXT    NOT NULL,
    PRIMARY KEY (run_id, first_seq)
);

INSERT INTO ledger_blocks (run_id, first_seq, last_seq, project, lines)
SELECT run_id, seq, seq, project,
    '{"at_ms":' || at_ms || ',"kind":' || json_quote(kind) || ',"payload":' || payload || ',"previous":"'
        || lag(hash, 1, '0000000000000000000000000000000000000000000000000000000000000000') OVER (PARTITION BY run_id ORDER BY seq)
        || '","project":' || json_quote(project) || ',"run_id":' || json_quote(run_id) || ',"seq":' || seq || '}'
FROM ledger;

DROP TABLE ledger;

ALTER TABLE ledger_blocks RENAME TO ledger;
