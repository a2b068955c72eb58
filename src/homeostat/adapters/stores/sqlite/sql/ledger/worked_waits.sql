-- The calls of some turns; ?1 is a JSON list.
SELECT w.turn_id, w.call_id, w.project, w.agent_id, w.tool, w.status, w.after_execution, w.step_id, w.call_card_id,
    w.result_card_id, w.created_at_ms, w.deadline_ms, w.answered_at_ms
FROM json_each(?1) AS wanted JOIN waits AS w ON w.turn_id = wanted.value
