-- Lets another one decide, if it was this one.
DELETE FROM immune_lease WHERE holder = $1
