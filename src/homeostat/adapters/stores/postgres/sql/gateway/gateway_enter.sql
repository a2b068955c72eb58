-- Lets a gateway post.
INSERT INTO gateways (gateway_id, expires_at_ms, number, seen_version) VALUES ($1, $2, 0, 0)
