-- Forgets what belongs to finished turns; ?1 is a JSON list of turn ids.
DELETE FROM steps WHERE turn_id IN (SELECT value FROM json_each(?1))
