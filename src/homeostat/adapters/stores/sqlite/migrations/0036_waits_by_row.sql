-- Tool calls lie in the order in which they were asked for, and are found by an index.
--
-- In a table without row ids a row that is longer than a quarter of a page is torn in two, and a page of its own holds the rest. Every
-- call that was answered was as long as that: it cost the log more than all else about its turn.

DROP VIEW edges;

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
