-- Every tool of a project.
SELECT name, description, parameters FROM tools WHERE project = ? ORDER BY name
