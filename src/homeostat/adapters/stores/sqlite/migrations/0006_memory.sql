-- What agents remember on SQLite: one JSON value per key, the last writer is right.

CREATE TABLE memory (
    project       TEXT    NOT NULL,
    agent_id      TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    value         TEXT    NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (project, agent_id, key)
) WITHOUT ROWID;
