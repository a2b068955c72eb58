-- Finished turns older than a scope: those with a deliverable.
SELECT t.turn_id FROM turns AS t
WHERE t.turn_id < ?1 AND EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = substr(t.turn_id, 6) AND c.position = 0)
ORDER BY t.turn_id LIMIT ?2
