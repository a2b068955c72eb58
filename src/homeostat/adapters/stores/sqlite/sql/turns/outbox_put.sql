-- Keeps the announcements of one commit until they are made.
INSERT INTO outbox (outbox_id, events) VALUES (?, ?)
