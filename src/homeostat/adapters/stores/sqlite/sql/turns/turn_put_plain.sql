-- Writes what was asked by a turn that nobody caused and that has nothing to go by: columns that are empty cost most to bind.
INSERT INTO turns (turn_id, project, agent_id, seq, type, payload, trace_id, depth, previous_turn_id, created_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
