-- Gateways that stopped renewing themselves, or whose lease lies further ahead ($4) than any clock could have put it.
SELECT gateway_id FROM gateways WHERE (expires_at_ms <= $1 OR expires_at_ms > $4) AND gateway_id <> $2 ORDER BY gateway_id LIMIT $3
