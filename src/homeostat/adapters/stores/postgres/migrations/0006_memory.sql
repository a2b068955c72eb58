-- What agents remember on PostgreSQL: one JSON value per key, the last writer is right.

CREATE TABLE memory (
    project       text COLLATE "C" NOT NULL,
    agent_id      text COLLATE "C" NOT NULL,
    key           text COLLATE "C" NOT NULL,
    value         text             NOT NULL,
    updated_at_ms bigint           NOT NULL,
    PRIMARY KEY (project, agent_id, key)
);
