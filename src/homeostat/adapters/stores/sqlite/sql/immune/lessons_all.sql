-- All that was learned.
SELECT project, agent_id, diagnosis, action, cured, failed, failed_at_ms FROM lessons
