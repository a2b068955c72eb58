-- Notes how tool calls were answered.
UPDATE waits AS w SET status = s.status, after_execution = s.after_execution, result_card_id = s.result_card_id,
    answered_at_ms = s.answered_at_ms
FROM unnest($1::waits[]) AS s
WHERE (SELECT ok FROM go) AND w.turn_id = s.turn_id AND w.call_id = s.call_id
