-- Writes what was spent and held of an account, inside the transaction that read it.
UPDATE budgets SET tokens_spent = ?4, micros_spent = ?5, tokens_held = ?6, micros_held = ?7, warned_at_ms = ?8,
    warned_of = ?9
WHERE project = ?1 AND kind = ?2 AND holder = ?3
