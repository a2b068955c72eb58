-- Turns that ended before an instant, project after project: those with a deliverable older than ?2. None of them was asked
-- for after ?1. Each project is found behind the one before it.
WITH RECURSIVE projects (project) AS (
    SELECT min(project) FROM turns WHERE project > ''
    UNION ALL
    SELECT (SELECT min(t.project) FROM turns AS t WHERE t.project > p.project) FROM projects AS p
    WHERE p.project IS NOT NULL
)
SELECT t.project, t.turn_id FROM projects AS p CROSS JOIN turns AS t
WHERE t.project = p.project AND t.turn_id < ?1 AND EXISTS (
    SELECT 1 FROM cards AS c WHERE c.scope = substr(t.turn_id, 6) AND c.position = 0 AND c.created_at_ms < ?2
)
LIMIT ?3
