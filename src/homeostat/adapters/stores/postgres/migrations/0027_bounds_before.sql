-- What of an account was spent and held when its bounds were set: bounds that were lowered may lie below it, and nobody let a call in
-- above them for that. Nothing where that cannot be told: who is not bounded holds nothing for the calls that are under way.

ALTER TABLE budgets ADD COLUMN tokens_before bigint;
ALTER TABLE budgets ADD COLUMN micros_before bigint;

UPDATE budgets SET tokens_before = tokens_spent + tokens_held, micros_before = micros_spent + micros_held;
