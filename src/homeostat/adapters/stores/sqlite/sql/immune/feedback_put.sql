-- Writes what an operator said, or that it was withdrawn; what was said in one project is not changed from another.
INSERT INTO feedback (feedback_id, project, agent_id, feedback) VALUES (?1, ?2, ?3, ?4)
ON CONFLICT (feedback_id) DO UPDATE SET feedback = excluded.feedback
WHERE feedback.project = excluded.project
