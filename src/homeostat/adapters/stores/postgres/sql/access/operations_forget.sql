-- Forgets what began long ago and nobody is at any more.
DELETE FROM operations WHERE operation_id < $1 AND (held_until_ms IS NULL OR held_until_ms < $2)
