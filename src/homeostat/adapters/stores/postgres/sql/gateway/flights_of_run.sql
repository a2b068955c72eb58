-- Open calls of a run, oldest first. $2 is how a call names its run; there are never many to look through.
SELECT call_id FROM flights WHERE project = $1 AND strpos(call, $2) > 0 ORDER BY call_id LIMIT $3
