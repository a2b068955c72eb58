-- Enforcement on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
--
-- enforcements what each strategy is to do about each agent, and what was found when it was looked at.
-- custodies    the process an agent is.
-- controls     where an agent takes orders, on whose word.
-- control_key  the one secret by which orders are signed.

CREATE TABLE enforcements (
    project  text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    strategy text COLLATE "C" NOT NULL,
    hold     text NOT NULL,
    PRIMARY KEY (project, agent_id, strategy)
);

CREATE TABLE custodies (
    project  text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    custody  text NOT NULL,
    PRIMARY KEY (project, agent_id)
);

CREATE TABLE controls (
    project  text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    control  text NOT NULL,
    PRIMARY KEY (project, agent_id)
);

CREATE TABLE control_key (
    one    integer NOT NULL CHECK (one = 1),
    secret text NOT NULL,
    PRIMARY KEY (one)
);
