-- Writes what was asked; never changed afterwards but for its boxes.
INSERT INTO turns SELECT * FROM unnest($1::turns[]) WHERE (SELECT ok FROM go)
