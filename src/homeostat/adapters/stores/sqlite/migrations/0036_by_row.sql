-- Heads, turns, tool calls and cards lie in the order in which they came, and are found by an index.
--
-- In a table without row ids a row that is longer than a quarter of a page is torn in two, and a page of its own holds the rest. Only
-- the shortest of these rows were not: a payload or a result of a hundred letters, a long name or a call that was answered each cost
-- a page of the log more. The tables are written anew, once.

DROP VIEW edges;

CREATE TABLE heads_again (
    project       TEXT    NOT NULL,
    agent_id      TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    status        TEXT    NOT NULL CHECK (status = 'idle' OR status = 'dispatched' OR status = 'running' OR status = 'suspended'),
    epoch         INTEGER NOT NULL,
    turn_id       TEXT,
    worker_id     TEXT,
    starts        INTEGER NOT NULL,
    losses        INTEGER NOT NULL,
    cards         INTEGER NOT NULL,
    gate          TEXT    NOT NULL CHECK (gate = 'open' OR gate = 'draining' OR gate = 'closed'),
    gate_reason   TEXT,
    queued        INTEGER NOT NULL CHECK (queued >= 0),
    tail_seq      INTEGER NOT NULL,
    last_turn_id  TEXT,
    waiting       INTEGER NOT NULL,
    deadline_ms   INTEGER,
    since_ms      INTEGER NOT NULL,
    holder        TEXT,
    PRIMARY KEY (project, agent_id),
    CHECK ((status = 'idle') = (turn_id IS NULL)),
    CHECK ((status = 'running') = (worker_id IS NOT NULL))
);

INSERT INTO heads_again SELECT project, agent_id, version, status, epoch, turn_id, worker_id, starts, losses, cards, gate, gate_reason,
    queued, tail_seq, last_turn_id, waiting, deadline_ms, since_ms, holder
FROM heads ORDER BY project, agent_id;

DROP TABLE heads;

ALTER TABLE heads_again RENAME TO heads;

CREATE INDEX heads_held ON heads (holder) WHERE holder IS NOT NULL;
CREATE INDEX heads_unclaimed ON heads (since_ms) WHERE status = 'dispatched';
CREATE INDEX heads_stranded ON heads (agent_id) WHERE status = 'idle' AND queued > 0 AND gate = 'open';

CREATE TABLE turns_again (
    turn_id          TEXT    NOT NULL,
    project          TEXT    NOT NULL,
    agent_id         TEXT    NOT NULL,
    seq              INTEGER NOT NULL,
    type             TEXT    NOT NULL CHECK (type = 'turn' OR type = 'ui_action' OR type = 'join_request'),
    payload          TEXT    NOT NULL,
    correlation_id   TEXT,
    source           TEXT,
    parent_turn_id   TEXT,
    parent_step_id   TEXT,
    reply_call_id    TEXT,
    trace_id         TEXT    NOT NULL,
    depth            INTEGER NOT NULL,
    run_id           TEXT,
    context_box_id   TEXT,
    output_box_id    TEXT,
    result_fields    TEXT,
    previous_turn_id TEXT,
    created_at_ms    INTEGER NOT NULL,
    context_until    INTEGER,
    PRIMARY KEY (project, turn_id)
);

INSERT INTO turns_again SELECT turn_id, project, agent_id, seq, type, payload, correlation_id, source, parent_turn_id, parent_step_id,
    reply_call_id, trace_id, depth, run_id, context_box_id, output_box_id, result_fields, previous_turn_id, created_at_ms, context_until
FROM turns ORDER BY project, turn_id;

DROP TABLE turns;

ALTER TABLE turns_again RENAME TO turns;

CREATE INDEX turns_children ON turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
CREATE INDEX turns_traced ON turns (trace_id, turn_id) WHERE trace_id <> '00000000' || substr(turn_id, 6);
CREATE INDEX turns_run ON turns (run_id, turn_id) WHERE run_id IS NOT NULL;

CREATE TABLE waits_again (
    turn_id         TEXT    NOT NULL,
    call_id         TEXT    NOT NULL,
    project         TEXT    NOT NULL,
    agent_id        TEXT    NOT NULL,
    tool            TEXT    NOT NULL,
    status          TEXT    NOT NULL
        CHECK (status = 'pending' OR status = 'success' OR status = 'error' OR status = 'timeout' OR status = 'cancelled'),
    after_execution TEXT    NOT NULL CHECK (after_execution IN ('suspend', 'terminate')),
    step_id         TEXT,
    call_card_id    TEXT,
    result_card_id  TEXT,
    created_at_ms   INTEGER NOT NULL,
    deadline_ms     INTEGER NOT NULL,
    answered_at_ms  INTEGER,
    PRIMARY KEY (turn_id, call_id)
);

INSERT INTO waits_again SELECT turn_id, call_id, project, agent_id, tool, status, after_execution, step_id, call_card_id,
    result_card_id, created_at_ms, deadline_ms, answered_at_ms
FROM waits ORDER BY turn_id, call_id;

DROP TABLE waits;

ALTER TABLE waits_again RENAME TO waits;

CREATE INDEX waits_due ON waits (deadline_ms) WHERE status = 'pending';

CREATE TABLE cards_again (
    project       TEXT    NOT NULL,
    scope         TEXT    NOT NULL,
    position      INTEGER NOT NULL,
    type          TEXT    NOT NULL,
    content       TEXT    NOT NULL,
    digest        TEXT    NOT NULL,
    author        TEXT,
    created_at_ms INTEGER NOT NULL,
    reference     TEXT,
    PRIMARY KEY (scope, position)
);

INSERT INTO cards_again SELECT project, scope, position, type, content, digest, author, created_at_ms, reference
FROM cards ORDER BY scope, position;

DROP TABLE cards;

ALTER TABLE cards_again RENAME TO cards;

CREATE INDEX cards_referred ON cards (reference) WHERE reference IS NOT NULL;

-- Who caused what: the message that opened each turn, and each result that was given to one. Nothing is stored twice.
CREATE VIEW edges AS
SELECT
    turn_id || ':request' AS edge_id,
    project,
    CASE type WHEN 'join_request' THEN 'join' ELSE 'enqueue' END AS primitive,
    'request' AS phase,
    source AS source_agent_id,
    agent_id AS target_agent_id,
    turn_id,
    parent_turn_id,
    reply_call_id AS call_id,
    correlation_id,
    trace_id,
    depth,
    created_at_ms
FROM turns
UNION ALL
SELECT
    w.turn_id || ':response:' || w.call_id,
    w.project,
    CASE WHEN child.turn_id IS NULL THEN 'report' ELSE 'join' END,
    'response',
    child.agent_id,
    w.agent_id,
    w.turn_id,
    t.parent_turn_id,
    w.call_id,
    w.call_id,
    t.trace_id,
    t.depth,
    w.answered_at_ms
FROM waits AS w
JOIN turns AS t ON t.project = w.project AND t.turn_id = w.turn_id
LEFT JOIN turns AS child ON child.parent_turn_id = w.turn_id AND child.reply_call_id = w.call_id
WHERE w.status IN ('success', 'error', 'timeout');
