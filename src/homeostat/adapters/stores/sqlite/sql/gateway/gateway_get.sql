-- The number of a gateway's last posting, if it is alive.
SELECT number FROM gateways WHERE gateway_id = ?1
