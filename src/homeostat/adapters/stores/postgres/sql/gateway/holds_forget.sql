-- Forgets who held parts of an account that was removed.
DELETE FROM holds WHERE project = $1 AND kind = $2 AND holder = $3
