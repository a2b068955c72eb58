-- Forgets the cards of finished turns; ?1 is a JSON list of turn ids.
DELETE FROM cards WHERE scope IN (SELECT substr(value, 6) FROM json_each(?1))
