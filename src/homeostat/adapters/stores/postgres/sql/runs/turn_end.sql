-- How a turn ended, by its scope.
SELECT content FROM cards WHERE scope = $1 AND position = 0 AND reference IS NULL
