-- Points turns at other boxes.
UPDATE turns AS t SET context_box_id = s.context_box_id, output_box_id = s.output_box_id, context_until = s.context_until
FROM unnest($1::turns[]) AS s
WHERE (SELECT ok FROM go) AND t.project = s.project AND t.turn_id = s.turn_id
