-- Moves one head on, from the version it was read at and from no other; the rest of a save hangs on it.
go AS (
    UPDATE heads SET
        version = $3, status = $4, epoch = $5, turn_id = $6, worker_id = $7, starts = $8, losses = $9, cards = $10,
        gate = $11, gate_reason = $12, queued = $13, tail_seq = $14, last_turn_id = $15, waiting = $16,
        deadline_ms = $17, since_ms = $18, holder = coalesce($19, holder), unclaimed_ms = $20, stranded = $21
    WHERE project = $1 AND agent_id = $2 AND version = $3::bigint - 1
    RETURNING true AS ok
)
