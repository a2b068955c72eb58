-- Notes how a tool call was answered.
UPDATE waits SET status = ?3, after_execution = ?4, result_card_id = ?5, answered_at_ms = ?6
WHERE turn_id = ?1 AND call_id = ?2
