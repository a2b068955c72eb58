-- How much of an account may be spent and held without a call having been let in above its bounds.
SELECT CASE WHEN tokens_max IS NULL OR tokens_before IS NULL THEN NULL ELSE greatest(tokens_max, tokens_before) END,
    CASE WHEN micros_max IS NULL OR micros_before IS NULL THEN NULL ELSE greatest(micros_max, micros_before) END
FROM budgets WHERE project = $1 AND kind = $2 AND holder = $3
