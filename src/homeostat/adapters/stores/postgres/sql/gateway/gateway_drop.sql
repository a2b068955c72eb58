-- A gateway is no more.
DELETE FROM gateways WHERE gateway_id = $1
