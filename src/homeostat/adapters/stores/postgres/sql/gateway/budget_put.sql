-- Sets an account's bounds; what was spent and held before stays.
INSERT INTO budgets (project, kind, holder, tokens_max, micros_max, seconds_max, started_at_ms,
    tokens_spent, micros_spent, tokens_held, micros_held, warned_at_ms)
VALUES ($1, $2, $3, $4, $5, $6, $7, 0, 0, 0, 0, NULL)
ON CONFLICT (project, kind, holder) DO UPDATE SET tokens_max = excluded.tokens_max, micros_max = excluded.micros_max,
    seconds_max = excluded.seconds_max, started_at_ms = excluded.started_at_ms, warned_at_ms = NULL
