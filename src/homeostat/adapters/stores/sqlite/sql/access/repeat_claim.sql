-- Begins a request under a key, unless one has begun under it; returns a row for whoever was first.
-- One that began long ago and never ended is begun again: whoever had it is gone.
INSERT INTO repeats (project, actor, key, fingerprint, at_ms) VALUES (?1, ?2, ?3, ?4, ?5)
ON CONFLICT (project, actor, key) DO UPDATE SET at_ms = excluded.at_ms
WHERE repeats.answer IS NULL AND repeats.fingerprint = excluded.fingerprint AND repeats.at_ms <= ?6
RETURNING key
