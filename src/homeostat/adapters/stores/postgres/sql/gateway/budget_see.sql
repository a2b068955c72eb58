-- One account of the ledger, as it is, without holding it.
SELECT project, kind, holder, tokens_max, micros_max, seconds_max, started_at_ms,
    tokens_spent, micros_spent, tokens_held, micros_held, warned_at_ms, stopped_at_ms, warned_of
FROM budgets WHERE project = $1 AND kind = $2 AND holder = $3
