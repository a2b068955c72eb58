-- The gateway on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
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
    project         text COLLATE "C" NOT NULL,
    policy_id       text COLLATE "C" NOT NULL,
    agent_id        text COLLATE "C",
    action          text             NOT NULL CHECK (action IN ('block', 'drain', 'model_filter', 'tool_filter', 'token_cap', 'rate_limit', 'clear_context', 'alert')),
    origin          text             NOT NULL CHECK (origin IN ('operator', 'immune', 'budget')),
    reason          text             NOT NULL,
    terms           text             NOT NULL,
    created_at_ms   bigint           NOT NULL,
    expires_at_ms   bigint,
    PRIMARY KEY (project, policy_id)
);

CREATE TABLE gateway_version (
    one             integer          NOT NULL PRIMARY KEY CHECK (one = 1),
    version         bigint           NOT NULL
);

INSERT INTO gateway_version VALUES (1, 1);

CREATE TABLE budgets (
    project         text COLLATE "C" NOT NULL,
    kind            text COLLATE "C" NOT NULL CHECK (kind IN ('run', 'agent')),
    holder          text COLLATE "C" NOT NULL,
    tokens_max      bigint,
    micros_max      bigint,
    seconds_max     double precision,
    started_at_ms   bigint           NOT NULL,
    tokens_spent    bigint           NOT NULL CHECK (tokens_spent >= 0),
    micros_spent    bigint           NOT NULL CHECK (micros_spent >= 0),
    tokens_held     bigint           NOT NULL CHECK (tokens_held >= 0),
    micros_held     bigint           NOT NULL CHECK (micros_held >= 0),
    warned_at_ms    bigint,
    PRIMARY KEY (project, kind, holder)
);

CREATE TABLE gateways (
    gateway_id      text COLLATE "C" NOT NULL PRIMARY KEY,
    expires_at_ms   bigint           NOT NULL,
    number          bigint           NOT NULL,
    seen_version    bigint           NOT NULL
);

CREATE TABLE holds (
    gateway_id      text COLLATE "C" NOT NULL,
    project         text COLLATE "C" NOT NULL,
    kind            text COLLATE "C" NOT NULL,
    holder          text COLLATE "C" NOT NULL,
    tokens          bigint           NOT NULL,
    micros          bigint           NOT NULL,
    PRIMARY KEY (gateway_id, project, kind, holder)
);

CREATE INDEX holds_account ON holds (project, kind, holder);

CREATE TABLE flights (
    call_id         text COLLATE "C" NOT NULL PRIMARY KEY,
    gateway_id      text COLLATE "C" NOT NULL,
    project         text COLLATE "C" NOT NULL,
    agent_id        text COLLATE "C" NOT NULL,
    call            text             NOT NULL,
    tokens_reserved bigint           NOT NULL,
    micros_reserved bigint           NOT NULL,
    keys            text             NOT NULL
);

CREATE INDEX flights_agent ON flights (project, agent_id);
CREATE INDEX flights_gateway ON flights (gateway_id);

CREATE TABLE calls (
    call_id         text COLLATE "C" NOT NULL PRIMARY KEY,
    project         text COLLATE "C" NOT NULL,
    agent_id        text COLLATE "C" NOT NULL,
    run_id          text COLLATE "C",
    model           text COLLATE "C" NOT NULL,
    outcome         text COLLATE "C" NOT NULL CHECK (outcome IN ('answered', 'refused', 'failed', 'abandoned', 'lost')),
    tokens          bigint           NOT NULL,
    cost_micros     bigint,
    call            text             NOT NULL
);

CREATE INDEX calls_agent ON calls (project, agent_id, call_id);
CREATE INDEX calls_run ON calls (run_id, call_id) WHERE run_id IS NOT NULL;
