-- How many calls of an agent are open in gateways other than the one that asks.
SELECT count(*) FROM flights WHERE project = $1 AND agent_id = $2 AND gateway_id <> $3
