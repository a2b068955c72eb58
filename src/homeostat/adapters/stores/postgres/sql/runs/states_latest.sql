-- Those of the last so many rows of some runs' states in which there is a task that is marked as running: what began last stands there.
SELECT s.run_id, s.states
FROM unnest($1::text[]) AS wanted (run_id)
CROSS JOIN LATERAL (SELECT max(e.place) AS place FROM run_states AS e WHERE e.run_id = wanted.run_id) AS last
JOIN run_states AS s ON s.run_id = wanted.run_id AND s.place > last.place - $2::bigint
WHERE strpos(s.states, '["running"') > 0
