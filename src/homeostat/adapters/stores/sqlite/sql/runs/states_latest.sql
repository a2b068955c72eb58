-- Those of the last so many rows of some runs' states in which there is a task that is marked as running: what began last stands there.
SELECT s.run_id, s.states
FROM json_each(?1) AS wanted
JOIN run_states AS s ON s.run_id = wanted.value
    AND s.place > (SELECT max(e.place) FROM run_states AS e WHERE e.run_id = wanted.value) - ?2
WHERE instr(s.states, '["running"') > 0
