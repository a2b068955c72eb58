-- Access on SQLite.
--
-- api_keys  keys of people and programs, by digest; the record has role, scope and dates.
-- logins    what browsers hold secrets of: sessions, one-time tickets, logins under way at a provider.
-- audit     what operators did, as a chain of digests.

CREATE TABLE api_keys (
    key_id       TEXT    NOT NULL,
    digest       TEXT    NOT NULL,
    old_digest   TEXT,
    last_used_ms INTEGER,
    record       TEXT    NOT NULL,
    PRIMARY KEY (key_id)
) WITHOUT ROWID;

CREATE UNIQUE INDEX api_keys_by_digest ON api_keys (digest);
CREATE INDEX api_keys_by_old_digest ON api_keys (old_digest) WHERE old_digest IS NOT NULL;

CREATE TABLE logins (
    digest        TEXT    NOT NULL,
    kind          TEXT    NOT NULL CHECK (kind IN ('session', 'ticket', 'oidc')),
    data          TEXT    NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (digest)
) WITHOUT ROWID;

CREATE INDEX logins_by_expiry ON logins (expires_at_ms);

CREATE TABLE audit (
    seq      INTEGER NOT NULL,
    act      TEXT    NOT NULL,
    previous TEXT    NOT NULL,
    digest   TEXT    NOT NULL,
    PRIMARY KEY (seq)
);
