-- Ledgers as rows of many entries. Entries of one transaction stand in one row, each as the very line that was hashed: a
-- row, its index and seven columns for each entry cost more than making the entry did.

CREATE TABLE ledger_blocks (
    run_id    text COLLATE "C" NOT NULL,
    first_seq bigint           NOT NULL CHECK (first_seq > 0),
    last_seq  bigint           NOT NULL CHECK (last_seq >= first_seq),
    project   text COLLATE "C" NOT NULL,
    lines     text             NOT NULL,
    PRIMARY KEY (run_id, first_seq)
);

INSERT INTO ledger_blocks (run_id, first_seq, last_seq, project, lines)
SELECT run_id, seq, seq, project,
    '{"at_ms":' || at_ms || ',"kind":' || to_json(kind) || ',"payload":' || payload || ',"previous":"'
        || lag(hash, 1, '0000000000000000000000000000000000000000000000000000000000000000') OVER (PARTITION BY run_id ORDER BY seq)
        || '","project":' || to_json(project) || ',"run_id":' || to_json(run_id) || ',"seq":' || seq || '}'
FROM ledger;

DROP TABLE ledger;

ALTER TABLE ledger_blocks RENAME TO ledger;
