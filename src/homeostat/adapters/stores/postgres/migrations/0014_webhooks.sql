-- Outgoing alerts on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
--
-- webhooks    where alerts go.
-- deliveries  each alert to each place; one without a next time is settled.

CREATE TABLE webhooks (
    project text COLLATE "C" NOT NULL,
    name    text COLLATE "C" NOT NULL,
    record  text             NOT NULL,
    PRIMARY KEY (project, name)
);

CREATE TABLE deliveries (
    delivery_id text COLLATE "C" NOT NULL,
    project     text COLLATE "C" NOT NULL,
    webhook     text COLLATE "C" NOT NULL,
    created_at_ms bigint NOT NULL,
    next_at_ms  bigint,
    record      text             NOT NULL,
    PRIMARY KEY (delivery_id)
);

CREATE INDEX deliveries_due ON deliveries (next_at_ms) WHERE next_at_ms IS NOT NULL;
CREATE INDEX deliveries_by_webhook ON deliveries (project, webhook, created_at_ms);
