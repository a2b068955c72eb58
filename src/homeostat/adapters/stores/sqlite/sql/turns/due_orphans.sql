-- Turns held by a worker that has no lease at all.
SELECT h.project, h.agent_id, h.turn_id, h.epoch, h.worker_id FROM heads AS h
WHERE h.worker_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.worker_id = h.worker_id) LIMIT ?1
