-- A call is over; one that was settled by others in the meantime stays as they settled it.
INSERT INTO calls (call_id, project, agent_id, run_id, model, outcome, tokens, cost_micros, call)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (call_id) DO NOTHING
