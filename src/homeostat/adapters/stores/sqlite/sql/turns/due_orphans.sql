-- Turns held by a worker that has no lease at all, among the next few heads: ?1 and ?2 name the head to go on behind,
-- ?3 says how many to look at. The row without a worker is the last head looked at, with how many they were.
WITH passed AS (
    SELECT project, agent_id, turn_id, epoch, worker_id FROM heads
    WHERE (project, agent_id) > (?1, ?2) ORDER BY project, agent_id LIMIT ?3
)
SELECT p.project, p.agent_id, p.turn_id, p.epoch, p.worker_id FROM passed AS p
WHERE p.worker_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM leases AS l WHERE l.worker_id = p.worker_id)
UNION ALL
SELECT * FROM (
    SELECT project, agent_id, NULL, (SELECT count(*) FROM passed), NULL FROM passed
    ORDER BY project DESC, agent_id DESC LIMIT 1
)
