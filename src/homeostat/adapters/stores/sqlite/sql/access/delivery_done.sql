-- Notes how an attempt ended; without a next time it was the last one.
UPDATE deliveries SET next_at_ms = ?2, record = ?3 WHERE delivery_id = ?1
