-- Runs on SQLite.
--
-- runs          goals and how far they are. Every change swaps the version and carries on the ledger; `driver` is the
--               process that looks after a live run, under an epoch that grows with every change of hands.
-- run_tasks     what runs consist of. A task is marked as running, with the turn it will be, before that turn exists.
-- run_gates     what a run may start. It is a table of its own, as every turn of a run reads it and a run's own row is
--               written all the time; a trigger on turns asks it, so nothing starts once a kill is committed.
-- run_drivers   processes that look after runs. One that stops renewing its row is dead; its runs are anybody's.
-- red_buttons   projects, or with an empty name the whole system, in which no run may begin.
--
-- Instants are Unix milliseconds, ids are time-ordered.

CREATE TABLE runs (
    run_id      TEXT    NOT NULL,
    project     TEXT    NOT NULL,
    version     INTEGER NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('planning', 'planned', 'applying', 'paused', 'completed', 'failed', 'killed')),
    live        INTEGER NOT NULL,
    driver      TEXT,
    epoch       INTEGER NOT NULL,
    ledger_next INTEGER NOT NULL,
    ledger_hash TEXT    NOT NULL,
    request_key TEXT,
    run         TEXT    NOT NULL,
    PRIMARY KEY (run_id)
) WITHOUT ROWID;

CREATE INDEX runs_project ON runs (project, run_id);
CREATE INDEX runs_live ON runs (run_id) WHERE live = 1;
CREATE INDEX runs_open ON runs (run_id) WHERE status IN ('planning', 'planned', 'applying', 'paused');
CREATE UNIQUE INDEX runs_request ON runs (project, request_key) WHERE request_key IS NOT NULL;

CREATE TABLE run_tasks (
    run_id        TEXT    NOT NULL,
    number        INTEGER NOT NULL,
    name          TEXT    NOT NULL,
    status        TEXT    NOT NULL CHECK (status IN ('waiting', 'held', 'running', 'succeeded', 'failed', 'skipped', 'stopped')),
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
    PRIMARY KEY (run_id, number)
) WITHOUT ROWID;

CREATE TABLE run_gates (
    run_id TEXT NOT NULL,
    state  TEXT NOT NULL CHECK (state IN ('open', 'holding', 'closed')),
    PRIMARY KEY (run_id)
) WITHOUT ROWID;

CREATE TABLE run_drivers (
    driver        TEXT    NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (driver)
) WITHOUT ROWID;

CREATE TABLE red_buttons (
    project       TEXT    NOT NULL,
    actor         TEXT    NOT NULL,
    reason        TEXT    NOT NULL,
    pressed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (project)
) WITHOUT ROWID;

CREATE INDEX turns_run ON turns (run_id, turn_id) WHERE run_id IS NOT NULL;

CREATE TRIGGER turns_of_runs BEFORE INSERT ON turns WHEN NEW.run_id IS NOT NULL
BEGIN
    SELECT RAISE(ABORT, 'run_closed')
    FROM run_gates WHERE run_id = NEW.run_id AND state = 'closed';
    SELECT RAISE(ABORT, 'run_held')
    FROM run_gates WHERE run_id = NEW.run_id AND state = 'holding' AND NEW.parent_turn_id IS NULL;
END;
