-- A call is open.
INSERT INTO flights (call_id, gateway_id, project, agent_id, call, tokens_reserved, micros_reserved, keys)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
