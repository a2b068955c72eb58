-- Points a turn at other boxes.
UPDATE turns SET context_box_id = ?1, output_box_id = ?2, context_until = ?3 WHERE project = ?4 AND turn_id = ?5
