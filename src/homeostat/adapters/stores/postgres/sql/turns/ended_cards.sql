-- Takes away cards of boxes that have ended, at most $1; returns what they refer to.
WITH ended AS MATERIALIZED (
    SELECT project, box_id FROM box_owners WHERE agent_id = '' LIMIT $1
),
piece AS MATERIALIZED (
    SELECT c.scope, c.position FROM ended AS e CROSS JOIN LATERAL (
        SELECT scope, position FROM cards WHERE scope = substr(e.box_id, 5) AND project = e.project
        ORDER BY position LIMIT $1
    ) AS c
    LIMIT $1
)
DELETE FROM cards AS c USING piece WHERE c.scope = piece.scope AND c.position = piece.position
RETURNING c.reference
