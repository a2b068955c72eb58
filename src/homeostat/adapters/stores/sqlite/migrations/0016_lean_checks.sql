-- Checks on turns that cost nothing to speak of, and heads whose indexes a plain turn leaves alone.
--
-- SQLite lays a list of more than two words into a table in memory, anew for each row that is checked: five such tables
-- were made and thrown away per turn, a fifth of its price. Compared one by one the same words cost next to nothing.
-- What is stored stays as it is, so the tables' text is changed in place, as SQLite's manual describes it for checks.
--
-- holder  the worker that had the agent's last turn, kept when the turn ends: what a worker holds is found among the
--         agents it served last. An index on worker_id changed twice for each turn.

PRAGMA writable_schema = ON;

UPDATE sqlite_schema SET sql = replace(replace(sql,
    'status IN (''idle'', ''dispatched'', ''running'', ''suspended'')',
    'status = ''idle'' OR status = ''dispatched'' OR status = ''running'' OR status = ''suspended'''),
    'gate IN (''open'', ''draining'', ''closed'')',
    'gate = ''open'' OR gate = ''draining'' OR gate = ''closed''')
WHERE type = 'table' AND name = 'heads';

UPDATE sqlite_schema SET sql = replace(sql,
    'type IN (''turn'', ''ui_action'', ''join_request'')',
    'type = ''turn'' OR type = ''ui_action'' OR type = ''join_request''')
WHERE type = 'table' AND name = 'turns';

UPDATE sqlite_schema SET sql = replace(sql,
    'status IN (''pending'', ''success'', ''error'', ''timeout'', ''cancelled'')',
    'status = ''pending'' OR status = ''success'' OR status = ''error'' OR status = ''timeout'' OR status = ''cancelled''')
WHERE type = 'table' AND name = 'waits';

PRAGMA writable_schema = RESET;

ALTER TABLE heads ADD COLUMN holder TEXT;

UPDATE heads SET holder = worker_id WHERE worker_id IS NOT NULL;

DROP INDEX heads_held;

CREATE INDEX heads_held ON heads (holder) WHERE holder IS NOT NULL;
