-- Every baseline.
SELECT project, agent_id, stream, state, habits, saved_at_ms FROM baselines
