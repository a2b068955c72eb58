-- The turns a dead worker holds.
SELECT project, agent_id, turn_id, epoch, worker_id FROM heads
WHERE holder = ANY ($1::text[]) AND worker_id = holder LIMIT $2
