-- A login that has not run out, and is gone: of several who ask, one gets it.
DELETE FROM logins WHERE digest = $2 AND kind = $1 AND expires_at_ms > $3
RETURNING digest, kind, data, expires_at_ms
