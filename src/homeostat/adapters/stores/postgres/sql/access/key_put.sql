-- Writes a key as it now is; when it was last used stays what it is.
INSERT INTO api_keys (key_id, digest, old_digest, last_used_ms, record) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (key_id) DO UPDATE SET digest = excluded.digest, old_digest = excluded.old_digest, record = excluded.record
