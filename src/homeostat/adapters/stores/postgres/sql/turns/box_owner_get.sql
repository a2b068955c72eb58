-- Who may write to a box.
SELECT agent_id FROM box_owners WHERE project = $1 AND box_id = $2
