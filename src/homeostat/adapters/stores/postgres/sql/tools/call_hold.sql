-- Keeps reservations of a project's calls for longer.
UPDATE calls_taken AS taken SET until_ms = greatest(taken.until_ms, $3)
FROM unnest($1::text[], $2::text[]) AS held (turn_id, call_id)
WHERE taken.turn_id = held.turn_id AND taken.call_id = held.call_id AND EXISTS (
    SELECT FROM waits WHERE waits.turn_id = held.turn_id AND waits.call_id = held.call_id AND waits.project = $4
)
