-- Answers a question that nobody has answered; returns it.
UPDATE approvals SET status = $2, approval = $3
WHERE approval_id = $1 AND status = 'pending'
RETURNING approval_id
