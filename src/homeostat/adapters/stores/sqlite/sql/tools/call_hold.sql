-- Keeps a reservation for longer.
UPDATE calls_taken SET until_ms = max(until_ms, ?3) WHERE turn_id = ?1 AND call_id = ?2
