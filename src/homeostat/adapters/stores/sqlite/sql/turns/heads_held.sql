-- The turns one worker is working on, and since when.
SELECT project, agent_id, turn_id, epoch, since_ms FROM heads WHERE holder = ?1 AND worker_id = ?1
