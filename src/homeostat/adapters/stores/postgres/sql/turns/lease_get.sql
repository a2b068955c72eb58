-- When a worker's lease ends.
SELECT expires_at_ms FROM leases WHERE worker_id = $1
