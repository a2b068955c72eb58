-- Puts a turn in line, or notes what it has been through since.
INSERT INTO inbox (project, agent_id, seq, turn_id, starts, losses, cards) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (project, agent_id, seq) DO UPDATE SET
    starts = excluded.starts, losses = excluded.losses, cards = excluded.cards
