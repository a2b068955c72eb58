-- Agents that left before an instant, a bounded number of them.
DELETE FROM agents
WHERE agent_id IN (SELECT agent_id FROM agents WHERE gone_at_ms IS NOT NULL AND gone_at_ms < ?1 LIMIT ?2)
