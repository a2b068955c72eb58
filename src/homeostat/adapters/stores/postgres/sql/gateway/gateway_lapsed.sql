-- Holds a gateway that stopped renewing itself, unless somebody else does or it has renewed itself after all.
SELECT gateway_id FROM gateways WHERE gateway_id = $1 AND (expires_at_ms <= $2 OR expires_at_ms > $3) FOR UPDATE SKIP LOCKED
