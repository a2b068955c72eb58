-- Presses a red button, unless it is pressed already.
INSERT INTO red_buttons (project, actor, reason, pressed_at_ms) VALUES ($1, $2, $3, $4)
ON CONFLICT (project) DO NOTHING
