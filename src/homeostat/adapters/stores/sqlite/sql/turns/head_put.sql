-- Gives an agent its head; fails if it has one.
INSERT INTO heads (project, agent_id, version, status, epoch, turn_id, worker_id, starts, losses, cards, gate, gate_reason,
    queued, tail_seq, last_turn_id, waiting, deadline_ms, since_ms, holder)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?7)
