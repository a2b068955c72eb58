-- The calls of some turns; $1 is a list.
SELECT w.turn_id, w.call_id, w.project, w.agent_id, w.tool, w.status, w.after_execution, w.step_id, w.call_card_id,
    w.result_card_id, w.created_at_ms, w.deadline_ms, w.answered_at_ms
FROM unnest($1::text[]) AS wanted (turn_id) JOIN waits AS w ON w.turn_id = wanted.turn_id
