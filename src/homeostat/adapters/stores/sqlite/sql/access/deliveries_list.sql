-- Alerts to one place, newest first; of those of one moment, in the order of their ids.
SELECT next_at_ms, record FROM deliveries
WHERE project = ?1 AND webhook = ?2 AND (created_at_ms, delivery_id) < (?3, ?4)
ORDER BY created_at_ms DESC, delivery_id DESC LIMIT ?5
