-- Turns that were dispatched within a span and that nobody has entered since.
SELECT project, agent_id, unclaimed_ms FROM heads
WHERE unclaimed_ms IS NOT NULL AND unclaimed_ms > $1 AND unclaimed_ms <= $2
ORDER BY unclaimed_ms LIMIT $3
