-- Long work on SQLite.
--
-- operations  each piece of work; whoever does it holds it until a time, and it is settled when there is none.

CREATE TABLE operations (
    operation_id  TEXT NOT NULL,
    project       TEXT NOT NULL,
    owner         TEXT NOT NULL,
    held_until_ms INTEGER,
    record        TEXT NOT NULL,
    PRIMARY KEY (project, operation_id)
) WITHOUT ROWID;

CREATE INDEX operations_held ON operations (owner) WHERE held_until_ms IS NOT NULL;
