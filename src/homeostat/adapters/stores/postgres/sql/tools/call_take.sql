-- Reserves calls that nobody has, or whose reservation has run out.
INSERT INTO calls_taken AS taken (turn_id, call_id, until_ms)
SELECT turn_id, call_id, $4 FROM unnest($1::text[], $2::text[]) AS wanted (turn_id, call_id) ORDER BY turn_id, call_id
ON CONFLICT (turn_id, call_id) DO UPDATE SET until_ms = excluded.until_ms WHERE taken.until_ms <= $3
RETURNING turn_id, call_id
