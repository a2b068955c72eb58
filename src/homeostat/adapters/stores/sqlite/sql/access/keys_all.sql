-- Every key, oldest first.
SELECT record, last_used_ms FROM api_keys ORDER BY key_id
