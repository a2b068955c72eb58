-- A page of a box that has not ended, in order.
SELECT project, scope, position, type, content, digest, author, created_at_ms, reference
FROM cards WHERE project = ?1 AND scope = ?2 AND position > ?3 AND NOT EXISTS (
    SELECT 1 FROM box_owners AS o WHERE o.project = ?1 AND o.box_id = 'box_' || ?2 AND o.agent_id = ''
)
ORDER BY position LIMIT ?4
