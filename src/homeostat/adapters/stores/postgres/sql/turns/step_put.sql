-- Remembers a step's outcome; the first one stays.
INSERT INTO steps SELECT * FROM unnest($1::steps[]) WHERE (SELECT ok FROM go)
ON CONFLICT DO NOTHING
