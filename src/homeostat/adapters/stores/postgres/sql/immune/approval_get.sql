-- One question.
SELECT approval FROM approvals WHERE project = $1 AND approval_id = $2
