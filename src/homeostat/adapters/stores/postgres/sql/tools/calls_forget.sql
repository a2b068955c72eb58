-- Forgets reservations that ran out long ago.
DELETE FROM calls_taken WHERE (turn_id, call_id) IN (SELECT turn_id, call_id FROM calls_taken WHERE until_ms < $1 LIMIT 100)
