-- Workers that were silent too long, or whose lease lies further ahead than any clock could have put it; each with its end.
SELECT worker_id, expires_at_ms FROM leases WHERE expires_at_ms <= ?1 OR expires_at_ms > ?1 + 2 * ?2 LIMIT ?3
