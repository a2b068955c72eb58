-- Reserves a call that nobody has, or whose reservation has run out.
INSERT INTO calls_taken (turn_id, call_id, until_ms) VALUES (?1, ?2, ?4)
ON CONFLICT (turn_id, call_id) DO UPDATE SET until_ms = excluded.until_ms WHERE until_ms <= ?3
RETURNING turn_id, call_id
