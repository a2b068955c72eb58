-- The number of a gateway's last posting, if it is alive; nobody else posts for it or buries it meanwhile.
SELECT number FROM gateways WHERE gateway_id = $1 FOR UPDATE
