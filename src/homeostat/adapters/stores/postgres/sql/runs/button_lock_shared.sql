-- Waits for whoever is pressing a button; held until the transaction ends.
SELECT pg_advisory_xact_lock_shared(7271130)
