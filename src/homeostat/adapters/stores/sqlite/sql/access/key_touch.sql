-- Notes when a key was last used, unless a later use is noted already.
UPDATE api_keys SET last_used_ms = ?2 WHERE key_id = ?1 AND (last_used_ms IS NULL OR last_used_ms < ?2)
