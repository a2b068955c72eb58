-- Which of some agents there are.
SELECT h.project, h.agent_id
FROM json_each(?1) AS wanted
JOIN heads AS h
    ON h.project = json_extract(wanted.value, '$[0]') AND h.agent_id = json_extract(wanted.value, '$[1]')
