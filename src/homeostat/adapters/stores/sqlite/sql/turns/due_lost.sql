-- The turns a dead worker holds.
SELECT project, agent_id, turn_id, epoch, worker_id FROM heads
WHERE worker_id IN (SELECT value FROM json_each(?1)) LIMIT ?2
