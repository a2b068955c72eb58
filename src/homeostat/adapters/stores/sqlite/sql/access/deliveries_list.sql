-- Alerts to one place, newest first.
SELECT next_at_ms, record FROM deliveries
WHERE project = ?1 AND webhook = ?2 AND created_at_ms < ?3 ORDER BY created_at_ms DESC LIMIT ?4
