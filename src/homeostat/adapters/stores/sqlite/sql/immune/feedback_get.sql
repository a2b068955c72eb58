-- One thing an operator said.
SELECT feedback FROM feedback WHERE project = ?1 AND feedback_id = ?2
