-- Turns that were dispatched within a span and that nobody has entered since.
SELECT project, agent_id, since_ms FROM heads
WHERE status = 'dispatched' AND gate <> 'closed' AND since_ms > ?1 AND since_ms <= ?2
ORDER BY since_ms LIMIT ?3
