-- Calls of some tools that were not answered yet, the most urgent first; the index holds pending ones only.
SELECT project, agent_id, turn_id, call_id, tool, call_card_id, deadline_ms FROM waits
WHERE status = 'pending' AND project = $1 AND tool = ANY ($2::text[])
ORDER BY deadline_ms LIMIT $3
