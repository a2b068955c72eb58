-- Orders on SQLite.
--
-- repeats  requests by their Idempotency-Key: one without an answer is under way.
-- cordons  agents that an operator lets have no new turns.

CREATE TABLE repeats (
    project     TEXT    NOT NULL,
    actor       TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    fingerprint TEXT    NOT NULL,
    answer      TEXT,
    at_ms       INTEGER NOT NULL,
    PRIMARY KEY (project, actor, key)
) WITHOUT ROWID;

CREATE INDEX repeats_by_age ON repeats (at_ms);

CREATE TABLE cordons (
    project  TEXT    NOT NULL,
    agent_id TEXT    NOT NULL,
    reason   TEXT    NOT NULL,
    actor    TEXT    NOT NULL,
    at_ms    INTEGER NOT NULL,
    PRIMARY KEY (project, agent_id)
) WITHOUT ROWID;
