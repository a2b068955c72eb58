-- Asks a question.
INSERT INTO approvals (approval_id, project, agent_id, status, approval) VALUES ($1, $2, $3, $4, $5)
