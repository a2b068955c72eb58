-- Points a turn at other boxes.
UPDATE turns SET context_box_id = ?1, output_box_id = ?2 WHERE project = ?3 AND turn_id = ?4
