-- Forgets what was settled long ago.
DELETE FROM deliveries WHERE next_at_ms IS NULL AND created_at_ms < ?1
