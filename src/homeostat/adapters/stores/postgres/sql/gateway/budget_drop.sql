-- Removes an account.
DELETE FROM budgets WHERE project = $1 AND kind = $2 AND holder = $3 RETURNING 1
