-- Says that nobody is at anything any more, since a time.
UPDATE operations SET held_until_ms = ?1 WHERE held_until_ms > ?1
