-- Lets a turn wait for a tool call.
INSERT INTO waits SELECT * FROM unnest($1::waits[]) WHERE (SELECT ok FROM go)
