-- Turns that one turn asked of others, and those of others in turn, that have no deliverable yet, behind one of them.
WITH RECURSIVE tree (turn_id) AS (
    SELECT turn_id FROM turns WHERE parent_turn_id = ?2
    UNION
    SELECT child.turn_id FROM tree JOIN turns AS child ON child.parent_turn_id = tree.turn_id
)
SELECT t.agent_id, t.turn_id FROM tree JOIN turns AS t ON t.turn_id = tree.turn_id
WHERE t.project = ?1 AND t.turn_id > ?3
    AND NOT EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = substr(t.turn_id, 6) AND c.position = 0)
ORDER BY t.turn_id LIMIT ?4
