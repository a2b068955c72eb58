-- Moves several heads on, all of them or none: they are locked in the order of their keys, so that two savers never
-- wait for each other, and counted, before the first one moves; the rest of a save hangs on that count.
held AS (
    SELECT h.project, h.agent_id
    FROM unnest($1::heads[]) AS s
    JOIN heads AS h ON h.project = s.project AND h.agent_id = s.agent_id AND h.version = s.version - 1
    ORDER BY h.project, h.agent_id
    FOR NO KEY UPDATE OF h
),
go AS (SELECT count(*) = cardinality($1::heads[]) AS ok FROM held),
swapped AS (
    UPDATE heads AS h SET
        version = s.version, status = s.status, epoch = s.epoch, turn_id = s.turn_id, worker_id = s.worker_id,
        starts = s.starts, losses = s.losses, cards = s.cards, gate = s.gate, gate_reason = s.gate_reason,
        queued = s.queued, tail_seq = s.tail_seq, last_turn_id = s.last_turn_id, waiting = s.waiting,
        deadline_ms = s.deadline_ms, since_ms = s.since_ms, holder = coalesce(s.holder, h.holder),
        unclaimed_ms = s.unclaimed_ms, stranded = s.stranded
    FROM unnest($1::heads[]) AS s
    WHERE (SELECT ok FROM go) AND h.project = s.project AND h.agent_id = s.agent_id
)
