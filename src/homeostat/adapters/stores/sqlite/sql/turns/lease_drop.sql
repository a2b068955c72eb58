-- Ends a worker's lease.
DELETE FROM leases WHERE worker_id = ?
