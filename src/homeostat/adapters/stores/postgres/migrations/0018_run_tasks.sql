-- On PostgreSQL tasks change in place already; SQLite's are made anew in this migration.

SELECT 1;
