-- Which of some turns took steps, other than the one named ?2, or asked others for something; ?1 is a JSON list.
SELECT wanted.value FROM json_each(?1) AS wanted
WHERE EXISTS (SELECT 1 FROM steps AS s WHERE s.turn_id = wanted.value AND s.name <> ?2)
   OR EXISTS (SELECT 1 FROM turns AS t WHERE t.parent_turn_id = wanted.value)
