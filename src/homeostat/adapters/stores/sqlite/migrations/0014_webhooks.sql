-- Outgoing alerts on SQLite.
--
-- webhooks    where alerts go.
-- deliveries  each alert to each place; one without a next time is settled.

CREATE TABLE webhooks (
    project TEXT NOT NULL,
    name    TEXT NOT NULL,
    record  TEXT NOT NULL,
    PRIMARY KEY (project, name)
) WITHOUT ROWID;

CREATE TABLE deliveries (
    delivery_id TEXT    NOT NULL,
    project     TEXT    NOT NULL,
    webhook     TEXT    NOT NULL,
    created_at_ms INTEGER NOT NULL,
    next_at_ms  INTEGER,
    record      TEXT    NOT NULL,
    PRIMARY KEY (delivery_id)
) WITHOUT ROWID;

CREATE INDEX deliveries_due ON deliveries (next_at_ms) WHERE next_at_ms IS NOT NULL;
CREATE INDEX deliveries_by_webhook ON deliveries (project, webhook, created_at_ms);
