-- The clock of an account can stand still, as that of a run does while it is planned or held.

ALTER TABLE budgets ADD COLUMN stopped_at_ms INTEGER;
