-- The steps of some turns; $1 is a list.
SELECT s.project, s.turn_id, s.name, s.outcome, s.created_at_ms
FROM unnest($1::text[]) AS wanted (turn_id) JOIN steps AS s ON s.turn_id = wanted.turn_id
