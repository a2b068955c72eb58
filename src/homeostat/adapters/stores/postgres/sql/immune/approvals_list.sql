-- Questions of a status, newest first; of any project where none is named.
SELECT approval FROM approvals
WHERE ($1::text = '' OR project = $1) AND ($2::text = '' OR status = $2) AND approval_id < $3
ORDER BY approval_id DESC LIMIT $4
