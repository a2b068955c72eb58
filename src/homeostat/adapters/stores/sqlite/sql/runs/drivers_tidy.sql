-- Forgets drivers that died.
DELETE FROM run_drivers WHERE expires_at_ms <= ?1 OR expires_at_ms > ?2
