-- Forgets agents that left before an instant, a bounded number of them; returns how many.
WITH forgotten AS (
    DELETE FROM agents WHERE agent_id IN (
        SELECT agent_id FROM agents WHERE gone_at_ms IS NOT NULL AND gone_at_ms < $1 ORDER BY gone_at_ms LIMIT $2
    )
    RETURNING 1
)
SELECT count(*) FROM forgotten
