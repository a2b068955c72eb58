-- A driver has ended.
DELETE FROM run_drivers WHERE driver = ?1
