-- Some cards by their birthplaces; ?2 is a JSON list of [scope, position].
SELECT c.project, c.scope, c.position, c.type, c.content, c.digest, c.author, c.created_at_ms, c.reference
FROM json_each(?2) AS wanted
JOIN cards AS c
    ON c.scope = json_extract(wanted.value, '$[0]') AND c.position = json_extract(wanted.value, '$[1]')
WHERE c.project = ?1
