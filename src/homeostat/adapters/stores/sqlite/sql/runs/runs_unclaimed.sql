-- A live run that no living driver has, if there is one.
SELECT r.run_id FROM runs AS r
WHERE r.live = 1 AND NOT EXISTS (SELECT 1 FROM run_drivers AS d WHERE d.driver = r.driver AND d.expires_at_ms > ?1 AND d.expires_at_ms <= ?2)
LIMIT 1
