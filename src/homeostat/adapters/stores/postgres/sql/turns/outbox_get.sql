-- Announcements nobody made yet.
SELECT outbox_id, events FROM outbox WHERE outbox_id < $1 ORDER BY outbox_id LIMIT $2
