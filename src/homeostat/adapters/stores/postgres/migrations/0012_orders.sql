-- Orders on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
--
-- repeats  requests by their Idempotency-Key: one without an answer is under way.
-- cordons  agents that an operator lets have no new turns.

CREATE TABLE repeats (
    project     text COLLATE "C" NOT NULL,
    actor       text COLLATE "C" NOT NULL,
    key         text COLLATE "C" NOT NULL,
    fingerprint text             NOT NULL,
    answer      text,
    at_ms       bigint           NOT NULL,
    PRIMARY KEY (project, actor, key)
);

CREATE INDEX repeats_by_age ON repeats (at_ms);

CREATE TABLE cordons (
    project  text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    reason   text             NOT NULL,
    actor    text             NOT NULL,
    at_ms    bigint           NOT NULL,
    PRIMARY KEY (project, agent_id)
);
