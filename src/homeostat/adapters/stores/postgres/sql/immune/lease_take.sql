-- Becomes the one that decides, unless another one is and lives: one whose lease lies further ahead than any
-- clock could have put it does not; returns whoever it is now.
INSERT INTO immune_lease (one, holder, expires_at_ms) VALUES (1, $1, $3)
ON CONFLICT (one) DO UPDATE SET holder = excluded.holder, expires_at_ms = excluded.expires_at_ms
WHERE immune_lease.holder = $1 OR immune_lease.expires_at_ms <= $2
    OR immune_lease.expires_at_ms > 2 * $3 - $2
RETURNING holder
