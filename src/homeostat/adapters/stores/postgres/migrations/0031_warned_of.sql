-- Each bound of an account is warned of by itself. Whoever was warned before that counts as warned of all, until a bound
-- is changed.

ALTER TABLE budgets ADD COLUMN warned_of text NOT NULL DEFAULT '';

UPDATE budgets SET warned_of = 'tokens usd seconds' WHERE warned_at_ms IS NOT NULL;
