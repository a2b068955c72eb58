-- Agents that left.
DELETE FROM standings WHERE agent_id = ANY ($1::text[])
