-- Forgets answers that are older than retention.
DELETE FROM answers WHERE (project, key) IN (SELECT project, key FROM answers WHERE created_at_ms < ?1 LIMIT ?2)
