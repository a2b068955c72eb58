-- The fleet on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
--
-- agents          who is registered. Of a key only the digest is here. Who left stays until retention, so that a late
--                 heartbeat is told apart from a stranger's.
-- push_intervals  what was set, by whom it is for. A setting that was taken back keeps its row without a value.
-- standings       how agents stood when the in-process keeper last wrote it down.
-- fleet_revision  one row: every change to the first two takes the next number. Whoever takes one holds the row until
--                 the end of the transaction, so that revisions become visible in their order.

CREATE TABLE fleet_revision (
    only_row integer NOT NULL PRIMARY KEY CHECK (only_row = 1),
    revision bigint  NOT NULL
) WITH (fillfactor = 10);

INSERT INTO fleet_revision VALUES (1, 0);

CREATE TABLE agents (
    agent_id         text COLLATE "C" NOT NULL PRIMARY KEY,
    project          text COLLATE "C" NOT NULL,
    agent_type       text             NOT NULL,
    tags             text             NOT NULL,
    hostname         text,
    pid              integer,
    key_digest       text COLLATE "C" NOT NULL,
    registered_at_ms bigint           NOT NULL,
    gone_at_ms       bigint,
    gone_why         text             CHECK (gone_why IN ('deregistered', 'expired')),
    request_digest   text,
    revision         bigint           NOT NULL,
    CHECK ((gone_at_ms IS NULL) = (gone_why IS NULL))
);

CREATE UNIQUE INDEX agents_key ON agents (key_digest);
CREATE UNIQUE INDEX agents_changed ON agents (revision);
CREATE INDEX agents_gone ON agents (gone_at_ms) WHERE gone_at_ms IS NOT NULL;

CREATE TABLE push_intervals (
    scope    text COLLATE "C"  NOT NULL CHECK (scope IN ('agent', 'tag', 'type', 'default')),
    name     text COLLATE "C"  NOT NULL,
    seconds  double precision  CHECK (seconds > 0),
    revision bigint            NOT NULL,
    PRIMARY KEY (scope, name)
);

CREATE UNIQUE INDEX push_intervals_changed ON push_intervals (revision);

CREATE TABLE standings (
    agent_id    text COLLATE "C" NOT NULL PRIMARY KEY,
    presence    text             NOT NULL CHECK (presence IN ('alive', 'stale', 'dead')),
    since_ms    bigint           NOT NULL,
    received_ms bigint           NOT NULL,
    counted_ms  bigint           NOT NULL,
    interval_ms bigint           NOT NULL,
    status      text
);
