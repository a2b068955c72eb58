-- Forgets calls that are older than retention.
DELETE FROM calls WHERE call_id IN (SELECT call_id FROM calls WHERE call_id < ?1 ORDER BY call_id LIMIT ?2)
