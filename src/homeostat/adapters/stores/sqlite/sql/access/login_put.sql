-- Writes a login.
INSERT INTO logins (digest, kind, data, expires_at_ms) VALUES (?1, ?2, ?3, ?4)
