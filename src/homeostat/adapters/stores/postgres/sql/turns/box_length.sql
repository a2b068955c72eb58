-- The last position taken in a box; 0 for a turn's own box that is empty still, null where there is no such box.
SELECT coalesce(
    (SELECT position FROM cards WHERE scope = $2 AND project = $1 ORDER BY position DESC LIMIT 1),
    (SELECT 0 FROM turns WHERE turn_id = 'turn_' || $2 AND project = $1)
)
