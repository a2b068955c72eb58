-- Gives live runs that no driver has to this one, each under its next epoch.
UPDATE runs SET driver = $1, epoch = epoch + 1
WHERE run_id IN (
    SELECT r.run_id FROM runs AS r
    WHERE r.live = 1 AND NOT EXISTS (SELECT 1 FROM run_drivers AS d WHERE d.driver = r.driver)
    ORDER BY r.run_id LIMIT $2 FOR UPDATE OF r SKIP LOCKED
)
RETURNING run, version, driver, epoch
