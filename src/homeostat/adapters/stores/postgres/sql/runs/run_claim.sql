-- Gives live runs that no living driver has to this one, each under its next epoch. A driver does not live whose lease
-- lies further ahead ($4) than any clock could have put it.
UPDATE runs SET driver = $1, epoch = epoch + 1
WHERE run_id IN (
    SELECT r.run_id FROM runs AS r
    WHERE r.live = 1 AND NOT EXISTS (
        SELECT 1 FROM run_drivers AS d WHERE d.driver = r.driver AND d.expires_at_ms > $2 AND d.expires_at_ms <= $4
    )
    ORDER BY r.run_id LIMIT $3 FOR UPDATE OF r SKIP LOCKED
)
RETURNING run, version, driver, epoch
