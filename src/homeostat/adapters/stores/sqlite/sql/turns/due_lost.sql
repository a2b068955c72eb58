-- The turns a dead worker holds.
SELECT project, agent_id, turn_id, epoch, worker_id FROM heads
WHERE holder IN (SELECT value FROM json_each(?1)) AND worker_id = holder LIMIT ?2
