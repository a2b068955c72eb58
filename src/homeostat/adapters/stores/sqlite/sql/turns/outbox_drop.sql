-- Forgets announcements that were made.
DELETE FROM outbox WHERE outbox_id = ?
