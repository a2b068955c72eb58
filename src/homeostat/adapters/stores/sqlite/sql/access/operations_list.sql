-- Operations of a project behind an id, newest first.
SELECT held_until_ms, record FROM operations
WHERE project = ?1 AND operation_id < ?2 ORDER BY operation_id DESC LIMIT ?3
