-- Every tool of a project.
SELECT name, description, parameters FROM tools WHERE project = $1 ORDER BY name
