-- Reads the number that grows with every change to policies and budgets.
SELECT version FROM gateway_version
