-- Calls of some tools that were not answered yet and that nobody has, the most urgent first; the index holds pending ones only.
SELECT project, agent_id, turn_id, call_id, tool, call_card_id, deadline_ms FROM waits
WHERE status = 'pending' AND project = ?1 AND tool IN (SELECT value FROM json_each(?2)) AND NOT EXISTS (
    SELECT 1 FROM calls_taken AS taken
    WHERE taken.turn_id = waits.turn_id AND taken.call_id = waits.call_id AND taken.until_ms > ?4
)
ORDER BY deadline_ms LIMIT ?3
