-- The first answers to some keys; ?1 is a JSON list of [project, key].
SELECT a.project, a.key, a.fingerprint, a.answer, a.created_at_ms
FROM json_each(?1) AS wanted
JOIN answers AS a
    ON a.project = json_extract(wanted.value, '$[0]') AND a.key = json_extract(wanted.value, '$[1]')
