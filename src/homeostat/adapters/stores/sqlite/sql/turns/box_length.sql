-- The last position taken in a box; no row if there is no such box.
SELECT max(position) FROM cards WHERE project = ?1 AND scope = ?2 HAVING count(*) > 0
