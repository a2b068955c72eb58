-- A call is over.
DELETE FROM flights WHERE call_id = $1
