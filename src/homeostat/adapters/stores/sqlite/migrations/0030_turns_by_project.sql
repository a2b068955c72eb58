-- Turns lie by project, then by id: a page of one project's turns costs a page, whatever its neighbours have. The table is
-- written anew, once; a turn costs what it cost.

DROP VIEW edges;

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
    PRIMARY KEY (project, turn_id)
) WITHOUT ROWID;

INSERT INTO turns_again SELECT turn_id, project, agent_id, seq, type, payload, correlation_id, source, parent_turn_id, parent_step_id, reply_call_id, trace_id,
    depth, run_id, context_box_id, output_box_id, result_fields, previous_turn_id, created_at_ms
FROM turns ORDER BY project, turn_id;

DROP TABLE turns;

ALTER TABLE turns_again RENAME TO turns;

CREATE INDEX turns_children ON turns (parent_turn_id) WHERE parent_turn_id IS NOT NULL;
CREATE INDEX turns_traced ON turns (trace_id, turn_id) WHERE trace_id <> '00000000' || substr(turn_id, 6);
CREATE INDEX turns_run ON turns (run_id, turn_id) WHERE run_id IS NOT NULL;

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
