-- What became of the request under a key.
SELECT fingerprint, answer FROM repeats WHERE project = ?1 AND actor = ?2 AND key = ?3
