-- Writes what a task of a run asked: as a plain turn does, with its run and whose attempt it is.
INSERT INTO turns (turn_id, project, agent_id, seq, type, payload, trace_id, depth, previous_turn_id, created_at_ms,
    correlation_id, run_id)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
