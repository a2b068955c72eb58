-- How many turns each project has, from one on. A project is whatever anybody wrote anything down under: one whose agents
-- have lost their heads is one all the same.
SELECT p.project, (SELECT count(*) FROM turns AS t WHERE t.project = p.project AND t.turn_id >= $1)
FROM (
    SELECT project FROM heads UNION SELECT project FROM turns UNION SELECT project FROM runs UNION SELECT project FROM budgets
    UNION SELECT project FROM calls UNION SELECT project FROM agents UNION SELECT project FROM transitions UNION SELECT project FROM incidents
) AS p ORDER BY p.project COLLATE "C"
