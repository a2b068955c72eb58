-- How some agents stood when they were last written down.
SELECT agent_id, presence, since_ms, received_ms, counted_ms, interval_ms, status
FROM standings
WHERE agent_id IN (SELECT value FROM json_each(?1))
