-- The last link; whoever asks has the lock that writers take, so it stays the last.
SELECT seq, digest FROM audit ORDER BY seq DESC LIMIT 1
