-- Forgets finished turns; ?1 is a JSON list of [project, turn_id].
DELETE FROM turns WHERE (project, turn_id) IN (
    SELECT json_extract(value, '$[0]'), json_extract(value, '$[1]') FROM json_each(?1)
)
