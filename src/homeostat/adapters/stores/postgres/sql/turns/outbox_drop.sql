-- Forgets announcements that were made.
DELETE FROM outbox WHERE (SELECT ok FROM go) AND outbox_id = ANY ($1::text[])
