-- The key that has this digest, or had it before its last rotation.
SELECT record, last_used_ms FROM api_keys WHERE digest = ?1 OR old_digest = ?1
