-- Lets a worker's lease run on.
INSERT INTO leases SELECT * FROM unnest($1::leases[]) WHERE (SELECT ok FROM go)
ON CONFLICT (worker_id) DO UPDATE SET expires_at_ms = excluded.expires_at_ms
