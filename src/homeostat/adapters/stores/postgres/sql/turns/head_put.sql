-- Gives an agent its head; fails if it has one.
INSERT INTO heads SELECT * FROM unnest($1::heads[]) WHERE (SELECT ok FROM go)
