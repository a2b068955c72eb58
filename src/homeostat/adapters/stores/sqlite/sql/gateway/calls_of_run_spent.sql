-- What the calls of a run took that stand behind one in the log.
SELECT COALESCE(sum(tokens), 0), COALESCE(sum(cost_micros), 0)
FROM calls INDEXED BY calls_run
WHERE project = ?1 AND run_id = ?2 AND call_id > ?3
