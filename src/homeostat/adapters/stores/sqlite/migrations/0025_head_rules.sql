-- SQLite compiles a table's checks into each statement that writes to it, once: there is nothing to change.

SELECT 1;
