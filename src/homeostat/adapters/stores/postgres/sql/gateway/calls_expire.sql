-- Forgets calls that are older than retention.
WITH gone AS (
    DELETE FROM calls WHERE call_id IN (SELECT call_id FROM calls WHERE call_id < $1 ORDER BY call_id LIMIT $2) RETURNING 1
)
SELECT count(*) FROM gone
