-- Adds a link to the chain; its number is the primary key, so no two can be the same.
INSERT INTO audit (seq, act, previous, digest) VALUES ($1, $2, $3, $4)
