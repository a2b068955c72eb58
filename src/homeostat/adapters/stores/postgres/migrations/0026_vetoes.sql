-- Remedies that operators forbid: against one diagnosis, for one agent, or for everybody where no agent is named.

CREATE TABLE vetoes (
    project   text COLLATE "C" NOT NULL,
    agent_id  text COLLATE "C" NOT NULL,
    diagnosis text COLLATE "C" NOT NULL,
    action    text COLLATE "C" NOT NULL,
    reason    text             NOT NULL,
    actor     text             NOT NULL,
    at_ms     bigint           NOT NULL,
    PRIMARY KEY (project, agent_id, diagnosis, action)
);
