-- Alerts that are due, the oldest first.
SELECT next_at_ms, record FROM deliveries WHERE next_at_ms <= ?1 ORDER BY next_at_ms LIMIT ?2
