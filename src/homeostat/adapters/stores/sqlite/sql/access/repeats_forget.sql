-- Forgets answers that nobody asks for any more.
DELETE FROM repeats WHERE at_ms <= ?1
