-- A page of a project's accounts, in the order of their keys.
SELECT project, kind, holder, tokens_max, micros_max, seconds_max, started_at_ms,
    tokens_spent, micros_spent, tokens_held, micros_held, warned_at_ms, stopped_at_ms, warned_of
FROM budgets WHERE project = $1 AND (kind, holder) > ($2, $3) ORDER BY kind, holder LIMIT $4
