-- Remedies that operators forbid: against one diagnosis, for one agent, or for everybody where no agent is named.

CREATE TABLE vetoes (
    project   TEXT    NOT NULL,
    agent_id  TEXT    NOT NULL,
    diagnosis TEXT    NOT NULL,
    action    TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    actor     TEXT    NOT NULL,
    at_ms     INTEGER NOT NULL,
    PRIMARY KEY (project, agent_id, diagnosis, action)
) WITHOUT ROWID;
