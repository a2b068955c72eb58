-- A push interval, or its withdrawal, under the next revision, which is returned.
WITH taken AS (UPDATE fleet_revision SET revision = revision + 1 RETURNING revision)
INSERT INTO push_intervals (scope, name, seconds, revision)
SELECT $1, $2, $3, revision FROM taken
ON CONFLICT (scope, name) DO UPDATE SET seconds = excluded.seconds, revision = excluded.revision
RETURNING revision
