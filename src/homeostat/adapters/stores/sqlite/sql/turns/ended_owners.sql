-- Forgets boxes that have ended and have no cards left.
DELETE FROM box_owners WHERE agent_id = '' AND NOT EXISTS (
    SELECT 1 FROM cards AS c WHERE c.scope = substr(box_owners.box_id, 5) AND c.project = box_owners.project
)
