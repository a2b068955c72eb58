-- Long work on PostgreSQL: the table of SQLite, with the same names and the same meaning.
--
-- operations  each piece of work; whoever does it holds it until a time, and it is settled when there is none.

CREATE TABLE operations (
    operation_id  text COLLATE "C" NOT NULL,
    project       text COLLATE "C" NOT NULL,
    owner         text COLLATE "C" NOT NULL,
    held_until_ms bigint,
    record        text NOT NULL,
    PRIMARY KEY (project, operation_id)
);

CREATE INDEX operations_held ON operations (owner) WHERE held_until_ms IS NOT NULL;
