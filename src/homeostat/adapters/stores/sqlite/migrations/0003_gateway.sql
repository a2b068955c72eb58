-- The gateway on SQLite.
--
-- policies         what agents may not do, until when and on whose word.
-- gateway_version  one number that grows with every change to policies and budgets, so that a look costs one row.
-- budgets          the ledger: one account per run or agent. What is held has been drawn by gateways and not been spent yet.
-- gateways         who may post. One that stops renewing its row is dead; its open calls are settled by the others.
-- holds            which gateway holds how much of an account.
-- flights          calls that are open, with what they are settled at should their gateway die.
-- calls            the call log, kept for a set time. It holds no prompt, no answer and no key.
--
-- Money is in micro-dollars, instants are Unix milliseconds, ids are time-ordered.

CREATE TABLE policies (
    project       TEXT    NOT NULL,
    policy_id     TEXT    NOT NULL,
    agent_id      TEXT,
    action        TEXT    NOT NULL CHECK (action IN ('block', 'drain', 'model_filter', 'tool_filter', 'token_cap', 'rate_limit', 'clear_context', 'alert')),
    origin        TEXT    NOT NULL CHECK (origin IN ('operator', 'immune', 'budget')),
    reason        TEXT    NOT NULL,
    terms         TEXT    NOT NULL,
    created_at_ms INTEGER NOT NULL,
    expires_at_ms INTEGER,
    PRIMARY KEY (project, policy_id)
) WITHOUT ROWID;

CREATE TABLE gateway_version (
    one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    version INTEGER NOT NULL
);

INSERT INTO gateway_version VALUES (1, 1);

CREATE TABLE budgets (
    project       TEXT    NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind IN ('run', 'agent')),
    holder        TEXT    NOT NULL,
    tokens_max    INTEGER,
    micros_max    INTEGER,
    seconds_max   REAL,
    started_at_ms INTEGER NOT NULL,
    tokens_spent  INTEGER NOT NULL CHECK (tokens_spent >= 0),
    micros_spent  INTEGER NOT NULL CHECK (micros_spent >= 0),
    tokens_held   INTEGER NOT NULL CHECK (tokens_held >= 0),
    micros_held   INTEGER NOT NULL CHECK (micros_held >= 0),
    warned_at_ms  INTEGER,
    PRIMARY KEY (project, kind, holder)
) WITHOUT ROWID;

CREATE TABLE gateways (
    gateway_id    TEXT    NOT NULL PRIMARY KEY,
    expires_at_ms INTEGER NOT NULL,
    number        INTEGER NOT NULL,
    seen_version  INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE holds (
    gateway_id TEXT    NOT NULL,
    project    TEXT    NOT NULL,
    kind       TEXT    NOT NULL,
    holder     TEXT    NOT NULL,
    tokens     INTEGER NOT NULL,
    micros     INTEGER NOT NULL,
    PRIMARY KEY (gateway_id, project, kind, holder)
) WITHOUT ROWID;

CREATE INDEX holds_account ON holds (project, kind, holder);

CREATE TABLE flights (
    call_id         TEXT    NOT NULL PRIMARY KEY,
    gateway_id      TEXT    NOT NULL,
    project         TEXT    NOT NULL,
    agent_id        TEXT    NOT NULL,
    call            TEXT    NOT NULL,
    tokens_reserved INTEGER NOT NULL,
    micros_reserved INTEGER NOT NULL,
    keys            TEXT    NOT NULL
) WITHOUT ROWID;

CREATE INDEX flights_agent ON flights (project, agent_id);
CREATE INDEX flights_gateway ON flights (gateway_id);

CREATE TABLE calls (
    call_id     TEXT    NOT NULL PRIMARY KEY,
    project     TEXT    NOT NULL,
    agent_id    TEXT    NOT NULL,
    run_id      TEXT,
    model       TEXT    NOT NULL,
    outcome     TEXT    NOT NULL CHECK (outcome IN ('answered', 'refused', 'failed', 'abandoned', 'lost')),
    tokens      INTEGER NOT NULL,
    cost_micros INTEGER,
    call        TEXT    NOT NULL
) WITHOUT ROWID;

CREATE INDEX calls_agent ON calls (project, agent_id, call_id);
CREATE INDEX calls_run ON calls (run_id, call_id) WHERE run_id IS NOT NULL;
