-- The red button that holds a project, that of the whole system first.
SELECT project, actor, reason, pressed_at_ms FROM red_buttons WHERE project IN ('', $1) ORDER BY project LIMIT 1
