-- A gateway holds nothing any more.
DELETE FROM holds WHERE gateway_id = $1
