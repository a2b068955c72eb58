-- Gives a box its writer; fails if it has one.
INSERT INTO box_owners SELECT * FROM unnest($1::box_owners[]) WHERE (SELECT ok FROM go)
