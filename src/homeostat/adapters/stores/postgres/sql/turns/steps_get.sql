-- The stored outcomes of a turn's steps.
SELECT name, outcome FROM steps WHERE turn_id = $1 AND project = $2
