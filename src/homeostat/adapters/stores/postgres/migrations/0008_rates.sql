-- rates  what gateways have drawn of each rate limit on each agent, by the second: a list of [second, requests, tokens].

CREATE TABLE rates (
    project     text COLLATE "C" NOT NULL,
    policy_id   text COLLATE "C" NOT NULL,
    agent_id    text COLLATE "C" NOT NULL,
    taken       text             NOT NULL,
    drawn_at_ms bigint           NOT NULL,
    PRIMARY KEY (project, policy_id, agent_id)
);

CREATE INDEX rates_drawn ON rates (drawn_at_ms);
