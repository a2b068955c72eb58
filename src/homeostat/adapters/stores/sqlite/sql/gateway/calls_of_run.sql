-- A page of one run's calls, newest first.
SELECT call
FROM calls INDEXED BY calls_run
WHERE project = ?1 AND call_id < ?2 AND call_id >= ?3 AND (?4 IS NULL OR agent_id = ?4) AND run_id = ?5
    AND (?6 IS NULL OR outcome = ?6) AND (?7 IS NULL OR model = ?7)
ORDER BY call_id DESC LIMIT ?8
