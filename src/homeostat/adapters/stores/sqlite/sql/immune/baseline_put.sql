-- Keeps a baseline, in place of the one before.
INSERT INTO baselines (project, agent_id, stream, state, habits, saved_at_ms) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (project, agent_id, stream) DO UPDATE SET
    state = excluded.state, habits = excluded.habits, saved_at_ms = excluded.saved_at_ms
