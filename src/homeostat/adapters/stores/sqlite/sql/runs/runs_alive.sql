-- Runs that have not ended, oldest first, of one project or of all.
SELECT run, version, driver, epoch FROM runs
WHERE status IN ('planning', 'planned', 'applying', 'paused') AND run_id > ?1 AND (?2 = '' OR project = ?2)
ORDER BY run_id LIMIT ?3
