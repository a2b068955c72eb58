-- Drops what has run out.
DELETE FROM logins WHERE expires_at_ms <= ?1
