-- Remembers values, in place of those before, and forgets the keys in $3.
WITH dropped AS (
    DELETE FROM memory WHERE project = $1 AND agent_id = $2 AND key = ANY ($3::text[])
)
INSERT INTO memory
SELECT $1, $2, kept.key, kept.value, $6
FROM unnest($4::text[], $5::text[]) AS kept (key, value)
ON CONFLICT (project, agent_id, key) DO UPDATE SET value = excluded.value, updated_at_ms = excluded.updated_at_ms
