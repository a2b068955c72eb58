-- Forgets drivers that died.
DELETE FROM run_drivers WHERE expires_at_ms <= $1
