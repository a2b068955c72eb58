-- The open calls of a gateway, oldest first.
SELECT call, tokens_reserved, micros_reserved, keys FROM flights WHERE gateway_id = $1 ORDER BY call_id LIMIT $2
