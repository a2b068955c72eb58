-- Says that an owner is still at what it has not settled.
UPDATE operations SET held_until_ms = ?2 WHERE owner = ?1 AND held_until_ms IS NOT NULL
