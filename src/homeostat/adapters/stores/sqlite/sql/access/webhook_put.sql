-- Writes where alerts go.
INSERT INTO webhooks (project, name, record) VALUES (?1, ?2, ?3)
ON CONFLICT (project, name) DO UPDATE SET record = excluded.record
