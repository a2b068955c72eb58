-- A project's runs, newest first.
SELECT run, version, driver, epoch FROM runs
WHERE project = ?1 AND run_id < ?2 AND (?3 = '' OR status = ?3)
ORDER BY run_id DESC LIMIT ?4
