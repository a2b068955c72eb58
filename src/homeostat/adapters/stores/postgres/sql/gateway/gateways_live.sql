-- Gateways that are alive, and the policies they have seen.
SELECT gateway_id, expires_at_ms, seen_version FROM gateways WHERE expires_at_ms > $1 ORDER BY gateway_id
