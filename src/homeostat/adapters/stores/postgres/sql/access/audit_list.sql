-- Links before a number, newest first.
SELECT seq, act, previous, digest FROM audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2
