-- Remembers a step's outcome; the first one stays.
INSERT INTO steps (project, turn_id, name, outcome, created_at_ms) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING
