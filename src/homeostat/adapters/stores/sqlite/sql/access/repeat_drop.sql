-- Forgets a request that did nothing.
DELETE FROM repeats WHERE project = ?1 AND actor = ?2 AND key = ?3
