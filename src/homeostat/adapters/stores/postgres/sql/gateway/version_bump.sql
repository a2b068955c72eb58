-- Counts a change to policies or budgets.
UPDATE gateway_version SET version = version + 1 RETURNING version
