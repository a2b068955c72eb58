-- On PostgreSQL rows lie in the order in which they came already; SQLite's are laid out anew in this migration.

SELECT 1;
