-- An unfinished turn that reads a box, writes to it, or was born with it: all that a project's agents work on and have in line is
-- looked through, as an index would cost every turn.
SELECT t.turn_id FROM heads AS h JOIN turns AS t ON t.project = h.project AND t.turn_id = h.turn_id
WHERE h.project = $1
    AND (t.context_box_id = 'box_' || $2 OR t.output_box_id = 'box_' || $2 OR t.turn_id = 'turn_' || $2)
UNION ALL
SELECT t.turn_id FROM inbox AS i JOIN turns AS t ON t.project = i.project AND t.turn_id = i.turn_id
WHERE i.project = $1
    AND (t.context_box_id = 'box_' || $2 OR t.output_box_id = 'box_' || $2 OR t.turn_id = 'turn_' || $2)
LIMIT 1
