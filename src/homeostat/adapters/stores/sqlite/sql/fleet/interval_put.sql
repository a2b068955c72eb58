-- A push interval, or its withdrawal.
INSERT INTO push_intervals (scope, name, seconds, revision)
VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (scope, name) DO UPDATE SET seconds = excluded.seconds, revision = excluded.revision
