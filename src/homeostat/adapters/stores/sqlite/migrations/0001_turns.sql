-- Turns on SQLite.
--
-- heads   one row per agent: its active turn, its gate, how much waits. Every change to an agent's turns swaps it.
-- turns   what was asked, one row per enqueue, written once. Finished ones stay readable until retention.
-- inbox   what waits, in line. A row is here only while its turn is queued; on the head it follows the head.
-- waits   the tool calls of a turn, with deadlines that never move.
-- cards   what was produced. (scope, position) is a card's birthplace; a turn's deliverable lies at position 0.
-- steps   outcomes that are replayed instead of repeated.
-- outbox  the announcements of one commit, until they are published.
--
-- Partial indexes hold live work only, so what they cost does not grow with history. Ids are time-ordered, so tables
-- and indexes grow at their right edge. Instants are Unix milliseconds.

CREATE TABLE heads (
    project       TEXT    NOT NULL,
    agent_id      TEXT    NOT NULL,
    version       INTEGER NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('idle', 'dispatched', 'running', 'suspended')),
    epoch         INTEGER NOT NULL,
    turn_id       TEXT,
    worker_id     TEXT,
    starts        INTEGER NOT NULL,
    losses        INTEGER NOT NULL,
    cards         INTEGER NOT NULL,
    gate          TEXT    NOT NULL CHECK (gate IN ('open', 'draining', 'closed')),
    gate_reason   TEXT,
    queued        INTEGER NOT NULL CHECK (queued >= 0),
    tail_seq      INTEGER NOT NULL,
    last_turn_id  TEXT,
    waiting       INTEGER NOT NULL,
    deadline_ms   INTEGER,
    since_ms      INTEGER NOT NULL,
    PRIMARY KEY (project, agent_id),
    CHECK ((status = 'idle') = (turn_id IS NULL)),
    CHECK ((status = 'running') = (worker_id IS NOT NULL))
) WITHOUT ROWID;

CREATE INDEX heads_held ON heads (worker_id) WHERE worker_id IS NOT NULL;
CREATE INDEX heads_unclaimed ON heads (since_ms) WHERE status = 'dispatched';
CREATE INDEX heads_stranded ON heads (agent_id) WHERE status = 'idle' AND queued > 0 AND gate = 'open';

CREATE TABLE turns (
    turn_id          TEXT    NOT NULL,
    project          TEXT    NOT NULL,
    agent_id         TEXT    NOT NULL,
    seq              INTEGER NOT NULL,
    type             TEXT    NOT NULL CHECK (type IN ('turn', 'ui_action', 'join_request')),
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
    PRIMARY KEY (turn_id)
) WITHOUT ROWID;

CREATE INDEX turns_children ON turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
CREATE INDEX turns_traced ON turns (trace_id, turn_id) WHERE trace_id <> '00000000' || substr(turn_id, 6);

CREATE TABLE inbox (
    project  TEXT    NOT NULL,
    agent_id TEXT    NOT NULL,
    seq      INTEGER NOT NULL,
    turn_id  TEXT    NOT NULL,
    starts   INTEGER NOT NULL,
    losses   INTEGER NOT NULL,
    cards    INTEGER NOT NULL,
    PRIMARY KEY (project, agent_id, seq)
) WITHOUT ROWID;

CREATE TABLE waits (
    turn_id         TEXT    NOT NULL,
    call_id         TEXT    NOT NULL,
    project         TEXT    NOT NULL,
    agent_id        TEXT    NOT NULL,
    tool            TEXT    NOT NULL,
    status          TEXT    NOT NULL CHECK (status IN ('pending', 'success', 'error', 'timeout', 'cancelled')),
    after_execution TEXT    NOT NULL CHECK (after_execution IN ('suspend', 'terminate')),
    step_id         TEXT,
    call_card_id    TEXT,
    result_card_id  TEXT,
    created_at_ms   INTEGER NOT NULL,
    deadline_ms     INTEGER NOT NULL,
    answered_at_ms  INTEGER,
    PRIMARY KEY (turn_id, call_id)
) WITHOUT ROWID;

CREATE INDEX waits_due ON waits (deadline_ms) WHERE status = 'pending';

CREATE TABLE cards (
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
) WITHOUT ROWID;
CREATE INDEX cards_referred ON cards (reference) WHERE reference IS NOT NULL;

CREATE TABLE box_owners (
    project  TEXT NOT NULL,
    box_id   TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    PRIMARY KEY (project, box_id)
) WITHOUT ROWID;

CREATE TABLE steps (
    project       TEXT    NOT NULL,
    turn_id       TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    outcome       TEXT    NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY (turn_id, name)
);

CREATE TABLE leases (
    worker_id     TEXT    NOT NULL PRIMARY KEY,
    expires_at_ms INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE answers (
    project       TEXT    NOT NULL,
    key           TEXT    NOT NULL,
    fingerprint   TEXT    NOT NULL,
    answer        TEXT    NOT NULL,
    created_at_ms INTEGER NOT NULL,
    PRIMARY KEY (project, key)
) WITHOUT ROWID;

CREATE INDEX answers_age ON answers (created_at_ms);

CREATE TABLE outbox (
    outbox_id TEXT NOT NULL,
    events    BLOB NOT NULL
);

CREATE UNIQUE INDEX outbox_age ON outbox (outbox_id);

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
JOIN turns AS t ON t.turn_id = w.turn_id
LEFT JOIN turns AS child ON child.parent_turn_id = w.turn_id AND child.reply_call_id = w.call_id
WHERE w.status IN ('success', 'error', 'timeout');
