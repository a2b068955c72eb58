-- Keeps a baseline, in place of the one before.
INSERT INTO baselines (project, agent_id, stream, state, habits, saved_at_ms) VALUES (?1, ?2, ?3, ?4, ?5, ?6)
ON CONFLICT (project, agent_id, stream) DO UPDATE SET
    state = excluded.state, habits = excluded.habits, saved_at_ms = excluded.saved_at_ms
