-- Ends of some turns: the cards at their fixed place, with the boxes their readers find them in; ?2 is a JSON list of scopes.
SELECT c.project, c.scope, c.position, c.type, c.content, c.digest, c.author, c.created_at_ms, c.reference,
    t.output_box_id
FROM cards AS c LEFT JOIN turns AS t ON t.turn_id = 'turn_' || c.scope AND t.project = c.project
WHERE c.project = ?1 AND c.scope IN (SELECT value FROM json_each(?2)) AND c.position = 0 AND c.type = 'task.deliverable'
