-- Gateways that stopped renewing themselves.
SELECT gateway_id FROM gateways WHERE expires_at_ms <= $1 AND gateway_id <> $2 ORDER BY gateway_id LIMIT $3
