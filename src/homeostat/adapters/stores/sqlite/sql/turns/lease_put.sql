-- Lets a worker's lease run on.
INSERT INTO leases (worker_id, expires_at_ms) VALUES (?, ?)
ON CONFLICT (worker_id) DO UPDATE SET expires_at_ms = excluded.expires_at_ms
