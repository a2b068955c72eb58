-- Open calls, oldest first, of one agent or of all.
SELECT call, tokens_reserved, micros_reserved, keys FROM flights
WHERE project = $1 AND ($2::text IS NULL OR agent_id = $2) ORDER BY call_id LIMIT $3
