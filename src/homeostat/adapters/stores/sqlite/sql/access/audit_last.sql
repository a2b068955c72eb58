-- The last link; the transaction that reads it has the file to itself.
SELECT seq, digest FROM audit ORDER BY seq DESC LIMIT 1
