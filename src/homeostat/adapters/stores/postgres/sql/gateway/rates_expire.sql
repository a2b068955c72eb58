-- Forgets limits nobody has drawn on for so long that nothing of it counts any more.
WITH gone AS (
    DELETE FROM rates WHERE (project, policy_id, agent_id) IN (
        SELECT project, policy_id, agent_id FROM rates WHERE drawn_at_ms < $1 ORDER BY drawn_at_ms LIMIT $2
        FOR UPDATE SKIP LOCKED
    ) RETURNING 1
)
SELECT count(*) FROM gone
