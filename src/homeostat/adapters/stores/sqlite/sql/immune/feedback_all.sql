-- All that operators said, oldest first.
SELECT feedback FROM feedback ORDER BY feedback_id
