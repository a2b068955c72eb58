-- Links behind a number, oldest first.
SELECT seq, act, previous, digest FROM audit WHERE seq > ?1 ORDER BY seq LIMIT ?2
