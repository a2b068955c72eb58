-- The open calls of a gateway were settled.
DELETE FROM flights WHERE gateway_id = $1
