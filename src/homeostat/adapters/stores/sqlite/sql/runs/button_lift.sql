-- Lifts a red button; returns it.
DELETE FROM red_buttons WHERE project = ?1 RETURNING project, actor, reason, pressed_at_ms
