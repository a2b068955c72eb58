-- Whether there is a box that has ended and is not taken away.
SELECT 1 FROM box_owners WHERE agent_id = '' LIMIT 1
