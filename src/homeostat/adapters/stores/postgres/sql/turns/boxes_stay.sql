-- Fails a save that names a box which has ended; $1 are the projects, $2 the boxes.
UNION ALL SELECT NULL, NULL WHERE NOT boxes_stay($1::text[], $2::text[])
