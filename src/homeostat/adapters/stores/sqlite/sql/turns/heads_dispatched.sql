-- Which of some agents have a turn that waits for a worker.
SELECT h.project, h.agent_id
FROM json_each(?1) AS wanted
JOIN heads AS h
    ON h.project = json_extract(wanted.value, '$[0]') AND h.agent_id = json_extract(wanted.value, '$[1]')
WHERE h.status = 'dispatched' AND h.gate <> 'closed' LIMIT ?2
