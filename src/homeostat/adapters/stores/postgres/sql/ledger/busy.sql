-- Which of some turns took steps, other than the one named $2, or asked others for something; $1 is a list.
SELECT wanted.turn_id FROM unnest($1::text[]) AS wanted (turn_id)
WHERE EXISTS (SELECT 1 FROM steps AS s WHERE s.turn_id = wanted.turn_id AND s.name <> $2)
   OR EXISTS (SELECT 1 FROM turns AS t WHERE t.parent_turn_id = wanted.turn_id)
