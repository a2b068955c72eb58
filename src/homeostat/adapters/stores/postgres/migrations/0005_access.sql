-- Access on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
--
-- api_keys  keys of people and programs, by digest; the record has role, scope and dates.
-- logins    what browsers hold secrets of: sessions, one-time tickets, logins under way at a provider.
-- audit     what operators did, as a chain of digests.

CREATE TABLE api_keys (
    key_id       text COLLATE "C" NOT NULL,
    digest       text COLLATE "C" NOT NULL,
    old_digest   text COLLATE "C",
    last_used_ms bigint,
    record       text             NOT NULL,
    PRIMARY KEY (key_id)
);

CREATE UNIQUE INDEX api_keys_by_digest ON api_keys (digest);
CREATE INDEX api_keys_by_old_digest ON api_keys (old_digest) WHERE old_digest IS NOT NULL;

CREATE TABLE logins (
    digest        text COLLATE "C" NOT NULL,
    kind          text             NOT NULL CHECK (kind IN ('session', 'ticket', 'oidc')),
    data          text             NOT NULL,
    expires_at_ms bigint           NOT NULL,
    PRIMARY KEY (digest)
);

CREATE INDEX logins_by_expiry ON logins (expires_at_ms);

CREATE TABLE audit (
    seq      bigint NOT NULL,
    act      text   NOT NULL,
    previous text   NOT NULL,
    digest   text   NOT NULL,
    PRIMARY KEY (seq)
);
