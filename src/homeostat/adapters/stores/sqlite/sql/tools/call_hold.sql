-- Keeps a reservation of a project's call for longer.
UPDATE calls_taken SET until_ms = max(until_ms, ?3) WHERE turn_id = ?1 AND call_id = ?2
AND EXISTS (SELECT 1 FROM waits WHERE waits.turn_id = ?1 AND waits.call_id = ?2 AND waits.project = ?4)
