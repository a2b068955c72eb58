-- A head with the end of the lease that backs it.
SELECT h.project, h.agent_id, h.version, h.status, h.epoch, h.turn_id, h.worker_id, h.starts, h.losses, h.cards,
    h.gate, h.gate_reason, h.queued, h.tail_seq, h.last_turn_id, h.waiting, h.deadline_ms, h.since_ms, l.expires_at_ms
FROM heads AS h LEFT JOIN leases AS l ON l.worker_id = h.worker_id
WHERE h.project = $1 AND h.agent_id = $2
