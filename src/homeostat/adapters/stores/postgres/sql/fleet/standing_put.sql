-- How agents stand, over what was written down before; who left meanwhile is left out.
INSERT INTO standings
SELECT s.* FROM unnest($1::standings[]) AS s
WHERE EXISTS (SELECT FROM agents AS a WHERE a.agent_id = s.agent_id AND a.gone_at_ms IS NULL)
ON CONFLICT (agent_id) DO UPDATE
SET presence = excluded.presence, since_ms = excluded.since_ms, received_ms = excluded.received_ms,
    counted_ms = excluded.counted_ms, interval_ms = excluded.interval_ms, status = excluded.status
