-- Forgets a driver that has said nothing since.
DELETE FROM run_drivers WHERE driver = ?1 AND expires_at_ms = ?2
