-- Every red button that is pressed.
SELECT project, actor, reason, pressed_at_ms FROM red_buttons ORDER BY project
