-- Sets an account's bounds; what was spent and held of one that is there stays, and is kept beside them.
INSERT INTO budgets (project, kind, holder, tokens_max, micros_max, seconds_max, started_at_ms, stopped_at_ms,
    tokens_spent, micros_spent, tokens_held, micros_held, warned_at_ms, tokens_before, micros_before,
    warned_of)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0, 0, ?11, ?9, ?10, ?12)
ON CONFLICT (project, kind, holder) DO UPDATE SET tokens_max = excluded.tokens_max, micros_max = excluded.micros_max,
    seconds_max = excluded.seconds_max, started_at_ms = excluded.started_at_ms, stopped_at_ms = excluded.stopped_at_ms,
    warned_at_ms = excluded.warned_at_ms, warned_of = excluded.warned_of,
    tokens_before = CASE WHEN budgets.tokens_max IS NULL THEN NULL ELSE budgets.tokens_spent + budgets.tokens_held END,
    micros_before = CASE WHEN budgets.micros_max IS NULL THEN NULL ELSE budgets.micros_spent + budgets.micros_held END
