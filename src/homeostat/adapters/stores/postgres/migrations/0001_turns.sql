-- Turns on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
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
-- and indexes grow at their right edge. Ids compare by bytes (COLLATE "C"), whatever the database's locale is.
-- Instants are Unix milliseconds.
--
-- A save sends each table's rows as one array of that table's row type, so columns stand in the order in which
-- records are written.
--
-- PostgreSQL reads a check or a generated column anew for each statement that writes to its table, which for a turn
-- that is alone in its flush costs a tenth of the save. So a table has one check, and nothing is generated.
--
-- Heads are the one table that is updated all the time, twice for each turn. An update stays inside its page and
-- touches no index (it is HOT) as long as the page has room and no indexed column changes, those included that an
-- index mentions only in its WHERE. A plain turn changes status, worker_id, turn_id and since_ms, so no index mentions
-- them. Three columns that a plain turn leaves alone stand in for them:
--
-- holder        the worker that had the agent's last turn, kept when the turn ends: what a worker holds is found among
--               the agents it served last
-- unclaimed_ms  since when a turn waits that nobody entered; null while workers keep up
-- stranded      an idle agent with mail behind an open gate, of which there should be none

CREATE TABLE heads (
    project      text COLLATE "C" NOT NULL,
    agent_id     text COLLATE "C" NOT NULL,
    version      bigint           NOT NULL,
    status       text             NOT NULL,
    epoch        integer          NOT NULL,
    turn_id      text COLLATE "C",
    worker_id    text COLLATE "C",
    starts       integer          NOT NULL,
    losses       integer          NOT NULL,
    cards        integer          NOT NULL,
    gate         text             NOT NULL,
    gate_reason  text,
    queued       integer          NOT NULL,
    tail_seq     bigint           NOT NULL,
    last_turn_id text COLLATE "C",
    waiting      integer          NOT NULL,
    deadline_ms  bigint,
    since_ms     bigint           NOT NULL,
    holder       text COLLATE "C",
    unclaimed_ms bigint,
    stranded     boolean,
    PRIMARY KEY (project, agent_id),
    CONSTRAINT heads_consistent CHECK (
        status IN ('idle', 'dispatched', 'running', 'suspended')
        AND gate IN ('open', 'draining', 'closed')
        AND queued >= 0
        AND (status = 'idle') = (turn_id IS NULL)
        AND (status = 'running') = (worker_id IS NOT NULL)
        AND (unclaimed_ms IS NOT NULL) = (status = 'dispatched' AND gate <> 'closed')
        AND (stranded IS NOT NULL) = (status = 'idle' AND queued > 0 AND gate = 'open')
    )
) WITH (fillfactor = 60);

CREATE INDEX heads_held ON heads (holder) WHERE holder IS NOT NULL;
CREATE INDEX heads_unclaimed ON heads (unclaimed_ms) WHERE unclaimed_ms IS NOT NULL;
CREATE INDEX heads_stranded ON heads (agent_id) WHERE stranded;

CREATE TABLE turns (
    turn_id          text COLLATE "C" NOT NULL,
    project          text COLLATE "C" NOT NULL,
    agent_id         text COLLATE "C" NOT NULL,
    seq              bigint           NOT NULL,
    type             text             NOT NULL CHECK (type IN ('turn', 'ui_action', 'join_request')),
    payload          text             NOT NULL,
    correlation_id   text,
    source           text COLLATE "C",
    parent_turn_id   text COLLATE "C",
    parent_step_id   text,
    reply_call_id    text COLLATE "C",
    trace_id         text COLLATE "C" NOT NULL,
    depth            integer          NOT NULL,
    run_id           text COLLATE "C",
    context_box_id   text COLLATE "C",
    output_box_id    text COLLATE "C",
    result_fields    text,
    previous_turn_id text COLLATE "C",
    created_at_ms    bigint           NOT NULL,
    PRIMARY KEY (turn_id)
);

CREATE INDEX turns_children ON turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
CREATE INDEX turns_traced ON turns (trace_id, turn_id) WHERE trace_id <> '00000000' || substr(turn_id, 6);

CREATE TABLE inbox (
    project  text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    seq      bigint           NOT NULL,
    turn_id  text COLLATE "C" NOT NULL,
    starts   integer          NOT NULL,
    losses   integer          NOT NULL,
    cards    integer          NOT NULL,
    PRIMARY KEY (project, agent_id, seq)
);

CREATE TABLE waits (
    turn_id         text COLLATE "C" NOT NULL,
    call_id         text COLLATE "C" NOT NULL,
    project         text COLLATE "C" NOT NULL,
    agent_id        text COLLATE "C" NOT NULL,
    tool            text             NOT NULL,
    status          text             NOT NULL
        CHECK (status IN ('pending', 'success', 'error', 'timeout', 'cancelled')),
    after_execution text             NOT NULL CHECK (after_execution IN ('suspend', 'terminate')),
    step_id         text,
    call_card_id    text COLLATE "C",
    result_card_id  text COLLATE "C",
    created_at_ms   bigint           NOT NULL,
    deadline_ms     bigint           NOT NULL,
    answered_at_ms  bigint,
    PRIMARY KEY (turn_id, call_id)
);

CREATE INDEX waits_due ON waits (deadline_ms) WHERE status = 'pending';

CREATE TABLE cards (
    project       text COLLATE "C" NOT NULL,
    scope         text COLLATE "C" NOT NULL,
    position      integer          NOT NULL,
    type          text             NOT NULL,
    content       text             NOT NULL,
    digest        text COLLATE "C" NOT NULL,
    author        text COLLATE "C",
    created_at_ms bigint           NOT NULL,
    reference     text COLLATE "C",
    PRIMARY KEY (scope, position)
);

CREATE INDEX cards_referred ON cards (reference) WHERE reference IS NOT NULL;

CREATE TABLE box_owners (
    project  text COLLATE "C" NOT NULL,
    box_id   text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    PRIMARY KEY (project, box_id)
);

CREATE TABLE steps (
    project       text COLLATE "C" NOT NULL,
    turn_id       text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    outcome       text             NOT NULL,
    created_at_ms bigint           NOT NULL,
    PRIMARY KEY (turn_id, name)
);

CREATE TABLE leases (
    worker_id     text COLLATE "C" NOT NULL PRIMARY KEY,
    expires_at_ms bigint           NOT NULL
) WITH (fillfactor = 60);

CREATE TABLE answers (
    project       text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    fingerprint   text             NOT NULL,
    answer        text             NOT NULL,
    created_at_ms bigint           NOT NULL,
    PRIMARY KEY (project, key)
);

CREATE INDEX answers_age ON answers (created_at_ms);

CREATE TABLE outbox (
    outbox_id text COLLATE "C" NOT NULL,
    events    bytea            NOT NULL
);

-- Events come compressed; trying again would only cost time.
ALTER TABLE outbox ALTER COLUMN events SET STORAGE EXTERNAL;

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
