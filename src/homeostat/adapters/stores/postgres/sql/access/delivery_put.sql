-- Writes an alert that is to be sent; the same alert to the same place is written once, however many hear of it.
INSERT INTO deliveries (delivery_id, project, webhook, created_at_ms, next_at_ms, record) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (delivery_id) DO NOTHING
