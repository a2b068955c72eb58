-- Lays a card at a place that must be free.
INSERT INTO cards (project, scope, position, type, content, digest, author, created_at_ms, reference)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
