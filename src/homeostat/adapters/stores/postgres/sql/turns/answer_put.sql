-- Keeps the first answer to a key; a second one fails, and the flush is decided again.
INSERT INTO answers SELECT * FROM unnest($1::answers[]) WHERE (SELECT ok FROM go)
