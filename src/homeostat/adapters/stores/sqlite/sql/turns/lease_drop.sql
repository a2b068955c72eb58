-- Ends a worker's lease; if an end comes with it only if the lease still has that, and was not renewed meanwhile.
DELETE FROM leases WHERE worker_id = ?1 AND expires_at_ms = coalesce(?2, expires_at_ms)
