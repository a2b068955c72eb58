-- Turns are found by project, then by id: a page of one project's turns costs a page, whatever its neighbours have. The index
-- is made anew, once; a turn costs what it cost.

ALTER TABLE turns DROP CONSTRAINT turns_pkey, ADD CONSTRAINT turns_pkey PRIMARY KEY (project, turn_id);

-- Who caused what: the message that opened each turn, and each result that was given to one. Nothing is stored twice.
CREATE OR REPLACE VIEW edges AS
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
