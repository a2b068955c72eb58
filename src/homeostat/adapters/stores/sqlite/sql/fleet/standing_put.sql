-- How an agent stands, over what was written down before; who left meanwhile is left out.
INSERT INTO standings (agent_id, presence, since_ms, received_ms, counted_ms, interval_ms, status)
SELECT * FROM (VALUES (?, ?, ?, ?, ?, ?, ?)) AS said
WHERE EXISTS (SELECT 1 FROM agents WHERE agent_id = said.column1 AND gone_at_ms IS NULL)
ON CONFLICT (agent_id) DO UPDATE
SET presence = excluded.presence, since_ms = excluded.since_ms, received_ms = excluded.received_ms,
    counted_ms = excluded.counted_ms, interval_ms = excluded.interval_ms, status = excluded.status
