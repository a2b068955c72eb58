-- A page of the call log, newest first.
SELECT call
FROM calls
WHERE project = $1 AND call_id < $2 AND call_id >= $3 AND ($4::text IS NULL OR agent_id = $4) AND ($5::text IS NULL OR run_id = $5)
    AND ($6::text IS NULL OR outcome = $6) AND ($7::text IS NULL OR model = $7)
ORDER BY call_id DESC LIMIT $8
