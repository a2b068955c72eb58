-- Accounts a gateway no longer holds anything of need no row.
DELETE FROM holds WHERE gateway_id = $1 AND tokens = 0 AND micros = 0
