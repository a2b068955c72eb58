-- One key.
SELECT record, last_used_ms FROM api_keys WHERE key_id = ?1
