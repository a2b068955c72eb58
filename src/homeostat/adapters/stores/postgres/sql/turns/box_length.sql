-- The last position taken in a box; 0 for a turn's own box that is empty still, null or nothing where there is no such box.
SELECT coalesce(
    (SELECT position FROM cards WHERE scope = $2 AND project = $1 ORDER BY position DESC LIMIT 1),
    (SELECT 0 FROM turns WHERE turn_id = 'turn_' || $2 AND project = $1)
)
WHERE NOT EXISTS (
    SELECT 1 FROM box_owners AS o WHERE o.project = $1 AND o.box_id = 'box_' || $2 AND o.agent_id = ''
)
