-- Remembers up to where retention has forgotten turns.
UPDATE swept SET turn_id = max(turn_id, ?1)
