-- Keeps the announcements of one commit until they are made.
INSERT INTO outbox SELECT * FROM unnest($1::outbox[]) WHERE (SELECT ok FROM go)
