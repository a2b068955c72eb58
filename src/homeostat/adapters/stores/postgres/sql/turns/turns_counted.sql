-- How many turns each project has, from one on.
SELECT p.project, (SELECT count(*) FROM turns AS t WHERE t.project = p.project AND t.turn_id >= $1)
FROM (SELECT DISTINCT project FROM heads) AS p ORDER BY p.project
