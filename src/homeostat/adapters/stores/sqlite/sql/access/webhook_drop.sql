-- Sends no more alerts there; returns a row if any were.
DELETE FROM webhooks WHERE project = ?1 AND name = ?2
RETURNING name
