-- Up to where a box goes now, as a turn that reads it remembers: its last position, and -1 less that while nothing lies at 0, where
-- an end would come to lie. Null or nothing where there is no such box.
SELECT CASE
    WHEN EXISTS (SELECT 1 FROM cards WHERE scope = $2 AND position = 0 AND project = $1) THEN b.length
    ELSE -1 - b.length
END
FROM (
    SELECT coalesce(
        (SELECT position FROM cards WHERE scope = $2 AND project = $1 ORDER BY position DESC LIMIT 1),
        (SELECT 0 FROM turns WHERE turn_id = 'turn_' || $2 AND project = $1)
    ) AS length
) AS b
WHERE NOT EXISTS (
    SELECT 1 FROM box_owners AS o WHERE o.project = $1 AND o.box_id = 'box_' || $2 AND o.agent_id = ''
)
