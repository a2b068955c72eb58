-- Tools on PostgreSQL: what is known of each, and which of their calls somebody is making right now.

CREATE TABLE tools (
    project       text COLLATE "C" NOT NULL,
    name          text COLLATE "C" NOT NULL,
    description   text             NOT NULL,
    parameters    text             NOT NULL,
    updated_at_ms bigint           NOT NULL,
    PRIMARY KEY (project, name)
);

CREATE TABLE calls_taken (
    turn_id  text COLLATE "C" NOT NULL,
    call_id  text COLLATE "C" NOT NULL,
    until_ms bigint           NOT NULL,
    PRIMARY KEY (turn_id, call_id)
);
