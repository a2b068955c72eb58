-- Renews a gateway and remembers the posting it wrote.
UPDATE gateways SET expires_at_ms = $2, number = $3, seen_version = $4 WHERE gateway_id = $1
