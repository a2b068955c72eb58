-- Enforcement on SQLite.
--
-- enforcements what each strategy is to do about each agent, and what was found when it was looked at.
-- custodies    the process an agent is.
-- controls     where an agent takes orders, on whose word.
-- control_key  the one secret by which orders are signed.

CREATE TABLE enforcements (
    project  TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    strategy TEXT NOT NULL,
    hold     TEXT NOT NULL,
    PRIMARY KEY (project, agent_id, strategy)
) WITHOUT ROWID;

CREATE TABLE custodies (
    project  TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    custody  TEXT NOT NULL,
    PRIMARY KEY (project, agent_id)
) WITHOUT ROWID;

CREATE TABLE controls (
    project  TEXT NOT NULL,
    agent_id TEXT NOT NULL,
    control  TEXT NOT NULL,
    PRIMARY KEY (project, agent_id)
) WITHOUT ROWID;

CREATE TABLE control_key (
    one    INTEGER NOT NULL CHECK (one = 1),
    secret TEXT NOT NULL,
    PRIMARY KEY (one)
) WITHOUT ROWID;
