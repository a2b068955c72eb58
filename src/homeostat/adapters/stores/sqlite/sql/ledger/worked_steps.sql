-- The steps of some turns; ?1 is a JSON list.
SELECT s.project, s.turn_id, s.name, s.outcome, s.created_at_ms
FROM json_each(?1) AS wanted JOIN steps AS s ON s.turn_id = wanted.value
