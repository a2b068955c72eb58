-- Writes an operation that begins.
INSERT INTO operations (operation_id, project, owner, held_until_ms, record) VALUES (?1, ?2, ?3, ?4, ?5)
