-- Lays a card at a place that must be free.
INSERT INTO cards SELECT * FROM unnest($1::cards[]) WHERE (SELECT ok FROM go)
