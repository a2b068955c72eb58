-- A run that is paused by force is held at its gate, and no longer by those alone who heard of the pause: none of its turns
-- is given out, and what they ask of other agents waits in line.
--
-- What is stored keeps its form, so the table's text is changed in place, as SQLite's manual describes it for checks.

PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(sql, '''holding'', ''closed''', '''holding'', ''held'', ''closed''')
WHERE type = 'table' AND name = 'run_gates';

PRAGMA writable_schema = RESET;

CREATE INDEX run_gates_held ON run_gates (run_id) WHERE state = 'held';

UPDATE run_gates SET state = 'held'
WHERE state = 'holding' AND run_id IN (SELECT run_id FROM runs WHERE status = 'paused' AND run LIKE '%"forced":true%');
