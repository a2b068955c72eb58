-- Agents that left.
DELETE FROM standings WHERE agent_id IN (SELECT value FROM json_each(?1))
