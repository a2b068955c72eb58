-- Ends the leases of workers.
DELETE FROM leases WHERE (SELECT ok FROM go) AND worker_id = ANY ($1::text[])
