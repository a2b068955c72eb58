-- Puts a turn in line, or notes what it has been through since.
INSERT INTO inbox SELECT * FROM unnest($1::inbox[]) WHERE (SELECT ok FROM go)
ON CONFLICT (project, agent_id, seq) DO UPDATE SET
    starts = excluded.starts, losses = excluded.losses, cards = excluded.cards
