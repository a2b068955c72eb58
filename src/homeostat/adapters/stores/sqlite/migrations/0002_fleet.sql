-- The fleet on SQLite.
--
-- agents          who is registered. Of a key only the digest is here. Who left stays until retention, so that a late
--                 heartbeat is told apart from a stranger's.
-- push_intervals  what was set, by whom it is for. A setting that was taken back keeps its row without a value.
-- standings       how agents stood when the in-process keeper last wrote it down.
-- fleet_revision  one row: every change to the first two takes the next number, in the order of commits.

CREATE TABLE fleet_revision (
    only_row INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    revision INTEGER NOT NULL
) WITHOUT ROWID;

INSERT INTO fleet_revision VALUES (1, 0);

CREATE TABLE agents (
    agent_id         TEXT    NOT NULL PRIMARY KEY,
    project          TEXT    NOT NULL,
    agent_type       TEXT    NOT NULL,
    tags             TEXT    NOT NULL,
    hostname         TEXT,
    pid              INTEGER,
    key_digest       TEXT    NOT NULL,
    registered_at_ms INTEGER NOT NULL,
    gone_at_ms       INTEGER,
    gone_why         TEXT    CHECK (gone_why IN ('deregistered', 'expired')),
    request_digest   TEXT,
    revision         INTEGER NOT NULL,
    CHECK ((gone_at_ms IS NULL) = (gone_why IS NULL))
) WITHOUT ROWID;

CREATE UNIQUE INDEX agents_key ON agents (key_digest);
CREATE UNIQUE INDEX agents_changed ON agents (revision);
CREATE INDEX agents_gone ON agents (gone_at_ms) WHERE gone_at_ms IS NOT NULL;

CREATE TABLE push_intervals (
    scope    TEXT    NOT NULL CHECK (scope IN ('agent', 'tag', 'type', 'default')),
    name     TEXT    NOT NULL,
    seconds  REAL    CHECK (seconds > 0),
    revision INTEGER NOT NULL,
    PRIMARY KEY (scope, name)
) WITHOUT ROWID;

CREATE UNIQUE INDEX push_intervals_changed ON push_intervals (revision);

CREATE TABLE standings (
    agent_id    TEXT    NOT NULL PRIMARY KEY,
    presence    TEXT    NOT NULL CHECK (presence IN ('alive', 'stale', 'dead')),
    since_ms    INTEGER NOT NULL,
    received_ms INTEGER NOT NULL,
    counted_ms  INTEGER NOT NULL,
    interval_ms INTEGER NOT NULL,
    status      TEXT
) WITHOUT ROWID;
