-- Tools on SQLite: what is known of each, and which of their calls somebody is making right now.

CREATE TABLE tools (
    project       TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    description   TEXT    NOT NULL,
    parameters    TEXT    NOT NULL,
    updated_at_ms INTEGER NOT NULL,
    PRIMARY KEY (project, name)
) WITHOUT ROWID;

CREATE TABLE calls_taken (
    turn_id  TEXT    NOT NULL,
    call_id  TEXT    NOT NULL,
    until_ms INTEGER NOT NULL,
    PRIMARY KEY (turn_id, call_id)
) WITHOUT ROWID;
