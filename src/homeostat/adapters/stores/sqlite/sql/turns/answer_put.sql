-- Keeps the first answer to a key; a second one fails, and the flush is decided again.
INSERT INTO answers (project, key, fingerprint, answer, created_at_ms) VALUES (?, ?, ?, ?, ?)
