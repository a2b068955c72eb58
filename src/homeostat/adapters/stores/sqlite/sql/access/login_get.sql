-- A login that has not run out.
SELECT digest, kind, data, expires_at_ms FROM logins WHERE digest = ?2 AND kind = ?1 AND expires_at_ms > ?3
