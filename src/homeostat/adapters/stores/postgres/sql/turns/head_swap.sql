-- Moves one head on, from the version it was read at and from no other; the rest of a save hangs on it.
swapped AS (
    UPDATE heads AS h SET
        version = s.version, status = s.status, epoch = s.epoch, turn_id = s.turn_id, worker_id = s.worker_id,
        starts = s.starts, losses = s.losses, cards = s.cards, gate = s.gate, gate_reason = s.gate_reason,
        queued = s.queued, tail_seq = s.tail_seq, last_turn_id = s.last_turn_id, waiting = s.waiting,
        deadline_ms = s.deadline_ms, since_ms = s.since_ms, holder = coalesce(s.worker_id, h.holder)
    FROM unnest($1::heads[]) AS s
    WHERE h.project = s.project AND h.agent_id = s.agent_id AND h.version = s.version - 1
    RETURNING h.project, h.agent_id
),
held AS (SELECT project, agent_id FROM swapped),
go AS (SELECT count(*) = 1 AS ok FROM held)
