-- rates  what gateways have drawn of each rate limit on each agent, by the second: a list of [second, requests, tokens].

CREATE TABLE rates (
    project     TEXT    NOT NULL,
    policy_id   TEXT    NOT NULL,
    agent_id    TEXT    NOT NULL,
    taken       TEXT    NOT NULL,
    drawn_at_ms INTEGER NOT NULL,
    PRIMARY KEY (project, policy_id, agent_id)
) WITHOUT ROWID;

CREATE INDEX rates_drawn ON rates (drawn_at_ms);
