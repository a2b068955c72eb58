-- Keeps the answer to a request that has ended.
UPDATE repeats SET answer = ?4 WHERE project = ?1 AND actor = ?2 AND key = ?3
