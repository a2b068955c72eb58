-- Waits for runs that are being made; held until the transaction ends.
SELECT pg_advisory_xact_lock(7271130)
