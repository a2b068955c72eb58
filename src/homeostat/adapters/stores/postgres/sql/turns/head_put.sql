-- Gives an agent its head; fails if it has one.
INSERT INTO heads (project, agent_id, version, status, epoch, turn_id, worker_id, starts, losses, cards, gate,
    gate_reason, queued, tail_seq, last_turn_id, waiting, deadline_ms, since_ms, holder)
SELECT project, agent_id, version, status, epoch, turn_id, worker_id, starts, losses, cards, gate, gate_reason,
    queued, tail_seq, last_turn_id, waiting, deadline_ms, since_ms, worker_id
FROM unnest($1::heads[]) WHERE (SELECT ok FROM go)
