-- Turns that ended before an instant: those with a deliverable older than ?2. None of them was asked for after ?1.
SELECT t.turn_id FROM turns AS t
WHERE t.turn_id < ?1 AND EXISTS (
    SELECT 1 FROM cards AS c WHERE c.scope = substr(t.turn_id, 6) AND c.position = 0 AND c.created_at_ms < ?2
)
ORDER BY t.turn_id LIMIT ?3
