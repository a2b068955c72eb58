-- Tasks as rows that change in place. A task is updated when it starts and when it ends: without a rowid each update took
-- the whole row out of its tree and put it in again, and a list of words in a check was laid out anew for each. Two updates
-- and an insert take half of what they took.

CREATE TABLE run_tasks_again (
    run_id        TEXT    NOT NULL,
    number        INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    status        TEXT    NOT NULL CHECK (status = 'waiting' OR status = 'held' OR status = 'running'
        OR status = 'succeeded' OR status = 'failed' OR status = 'skipped' OR status = 'stopped'),
    attempt       INTEGER NOT NULL,
    turn_id       TEXT,
    agent_id      TEXT,
    not_before_ms INTEGER,
    started_at_ms INTEGER,
    ended_at_ms   INTEGER,
    approved_by   TEXT,
    error         TEXT,
    result        TEXT,
    spec          TEXT    NOT NULL,
    noted         TEXT,
    PRIMARY KEY (run_id, number)
);

INSERT INTO run_tasks_again SELECT run_id, number, name, status, attempt, turn_id, agent_id, not_before_ms, started_at_ms,
    ended_at_ms, approved_by, error, result, spec, noted FROM run_tasks;

DROP TABLE run_tasks;

ALTER TABLE run_tasks_again RENAME TO run_tasks;
