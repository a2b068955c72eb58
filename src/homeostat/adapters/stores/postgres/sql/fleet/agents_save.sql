-- New agents ($1), unless their id or key is taken, and entries ($2) that are still the ones that were read, under the
-- next revisions; returns what was written. $3 says how many there are.
WITH taken AS (
    UPDATE fleet_revision SET revision = revision + $3::integer RETURNING revision - $3::integer AS last
),
put AS (
    INSERT INTO agents
    SELECT n.agent_id, n.project, n.agent_type, n.tags, n.hostname, n.pid, n.key_digest, n.registered_at_ms,
        n.gone_at_ms, n.gone_why, n.request_digest, taken.last + n.ordinality, n.version
    FROM taken, unnest($1::agents[]) WITH ORDINALITY AS n
    ON CONFLICT DO NOTHING
    RETURNING agent_id, revision
),
swapped AS (
    UPDATE agents AS a SET
        project = n.project, agent_type = n.agent_type, tags = n.tags, hostname = n.hostname, pid = n.pid,
        key_digest = n.key_digest, registered_at_ms = n.registered_at_ms, gone_at_ms = n.gone_at_ms,
        gone_why = n.gone_why, request_digest = n.request_digest,
        revision = taken.last + cardinality($1::agents[]) + n.ordinality, version = n.version
    FROM taken, unnest($2::agents[]) WITH ORDINALITY AS n
    WHERE a.agent_id = n.agent_id AND a.revision = n.revision
    RETURNING a.agent_id, a.revision
)
SELECT agent_id, revision FROM put
UNION ALL
SELECT agent_id, revision FROM swapped
