-- Ends the leases of workers; one that comes with an end only if it still has that, and was not renewed meanwhile.
DELETE FROM leases AS l USING unnest($1::leases[]) AS d
WHERE (SELECT ok FROM go) AND l.worker_id = d.worker_id AND l.expires_at_ms = coalesce(d.expires_at_ms, l.expires_at_ms)
