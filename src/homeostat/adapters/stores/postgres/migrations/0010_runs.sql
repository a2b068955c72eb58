-- Runs on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
--
-- runs          goals and how far they are. Every change swaps the version and carries on the ledger; `driver` is the
--               process that looks after a live run, under an epoch that grows with every change of hands.
-- run_tasks     what runs consist of. A task is marked as running, with the turn it will be, before that turn exists.
-- run_gates     what a run may start. It is a table of its own, as every turn of a run reads it and a run's own row is
--               written all the time; a trigger on turns asks it, so nothing starts once a kill is committed.
-- run_drivers   processes that look after runs. One that stops renewing its row is dead; its runs are anybody's.
-- red_buttons   projects, or with an empty name the whole system, in which no run may begin.
--
-- A turn locks its run's gate against change until it is committed: whoever closes the gate waits for turns that
-- found it open, and every turn that comes later finds it closed.

CREATE TABLE runs (
    run_id      text COLLATE "C" NOT NULL,
    project     text COLLATE "C" NOT NULL,
    version     bigint           NOT NULL,
    status      text             NOT NULL CHECK (status IN ('planning', 'planned', 'applying', 'paused', 'completed', 'failed', 'killed')),
    live        integer          NOT NULL,
    driver      text COLLATE "C",
    epoch       bigint           NOT NULL,
    ledger_next bigint           NOT NULL,
    ledger_hash text             NOT NULL,
    request_key text COLLATE "C",
    run         text             NOT NULL,
    PRIMARY KEY (run_id)
) WITH (fillfactor = 60);

CREATE INDEX runs_project ON runs (project, run_id);
CREATE INDEX runs_live ON runs (run_id) WHERE live = 1;
CREATE INDEX runs_open ON runs (run_id) WHERE status IN ('planning', 'planned', 'applying', 'paused');
CREATE UNIQUE INDEX runs_request ON runs (project, request_key) WHERE request_key IS NOT NULL;

CREATE TABLE run_tasks (
    run_id        text COLLATE "C" NOT NULL,
    number        bigint           NOT NULL,
    name          text             NOT NULL,
    status        text             NOT NULL CHECK (status IN ('waiting', 'held', 'running', 'succeeded', 'failed', 'skipped', 'stopped')),
    attempt       bigint           NOT NULL,
    turn_id       text COLLATE "C",
    agent_id      text COLLATE "C",
    not_before_ms bigint,
    started_at_ms bigint,
    ended_at_ms   bigint,
    approved_by   text,
    error         text,
    result        text,
    spec          text             NOT NULL,
    PRIMARY KEY (run_id, number)
) WITH (fillfactor = 60);

CREATE TABLE run_gates (
    run_id text COLLATE "C" NOT NULL,
    state  text             NOT NULL CHECK (state IN ('open', 'holding', 'closed')),
    PRIMARY KEY (run_id)
);

CREATE TABLE run_drivers (
    driver        text COLLATE "C" NOT NULL,
    expires_at_ms bigint           NOT NULL,
    PRIMARY KEY (driver)
);

CREATE TABLE red_buttons (
    project       text COLLATE "C" NOT NULL,
    actor         text             NOT NULL,
    reason        text             NOT NULL,
    pressed_at_ms bigint           NOT NULL,
    PRIMARY KEY (project)
);

CREATE INDEX turns_run ON turns (run_id, turn_id) WHERE run_id IS NOT NULL;

CREATE FUNCTION turns_of_runs() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    gate text;
BEGIN
    SELECT state INTO gate FROM run_gates WHERE run_id = NEW.run_id FOR SHARE;
    IF gate = 'closed' THEN
        RAISE EXCEPTION 'run_closed' USING ERRCODE = 'integrity_constraint_violation';
    ELSIF gate = 'holding' AND NEW.parent_turn_id IS NULL THEN
        RAISE EXCEPTION 'run_held' USING ERRCODE = 'integrity_constraint_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER turns_of_runs BEFORE INSERT ON turns
FOR EACH ROW WHEN (NEW.run_id IS NOT NULL) EXECUTE FUNCTION turns_of_runs();
