-- The secret by which orders are signed.
SELECT secret FROM control_key WHERE one = 1
