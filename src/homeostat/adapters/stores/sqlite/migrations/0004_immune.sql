-- The immune system on SQLite.
--
-- patients      how healthy each agent is held to be; every change swaps the version.
-- transitions   every step of that, with cause and actor.
-- incidents     illnesses with evidence, hypotheses and treatments; one without an agent is the fleet's.
-- approvals     questions to operators; the first answer stands.
-- lessons       which remedy helped whom against what, and which did not.
-- feedback      what operators said of diagnoses.
-- baselines     what is normal for each agent and stream of vitals.
-- immune_lease  the one process that decides.
--
-- Instants are Unix milliseconds, ids are time-ordered.

CREATE TABLE patients (
    project  TEXT    NOT NULL,
    agent_id TEXT    NOT NULL,
    version  INTEGER NOT NULL,
    phase    TEXT    NOT NULL CHECK (phase IN ('initializing', 'healthy', 'suspected', 'draining', 'quarantined', 'healing', 'probation', 'exhausted')),
    patient  TEXT    NOT NULL,
    PRIMARY KEY (project, agent_id)
) WITHOUT ROWID;

CREATE TABLE transitions (
    transition_id TEXT NOT NULL,
    project       TEXT NOT NULL,
    agent_id      TEXT NOT NULL,
    transition    TEXT NOT NULL,
    PRIMARY KEY (transition_id)
) WITHOUT ROWID;

CREATE TABLE incidents (
    incident_id TEXT NOT NULL,
    project     TEXT NOT NULL,
    agent_id    TEXT,
    incident    TEXT NOT NULL,
    PRIMARY KEY (incident_id)
) WITHOUT ROWID;

CREATE TABLE approvals (
    approval_id TEXT NOT NULL,
    project     TEXT NOT NULL,
    agent_id    TEXT NOT NULL,
    status      TEXT NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
    approval    TEXT NOT NULL,
    PRIMARY KEY (approval_id)
) WITHOUT ROWID;

CREATE TABLE lessons (
    project      TEXT    NOT NULL,
    agent_id     TEXT    NOT NULL,
    diagnosis    TEXT    NOT NULL,
    action       TEXT    NOT NULL,
    cured        INTEGER NOT NULL,
    failed       INTEGER NOT NULL,
    failed_at_ms INTEGER NOT NULL,
    PRIMARY KEY (project, agent_id, diagnosis, action)
) WITHOUT ROWID;

CREATE TABLE feedback (
    feedback_id TEXT NOT NULL,
    project     TEXT NOT NULL,
    agent_id    TEXT NOT NULL,
    feedback    TEXT NOT NULL,
    PRIMARY KEY (feedback_id)
) WITHOUT ROWID;

CREATE TABLE baselines (
    project     TEXT    NOT NULL,
    agent_id    TEXT    NOT NULL,
    stream      TEXT    NOT NULL,
    state       BLOB    NOT NULL,
    habits      TEXT    NOT NULL,
    saved_at_ms INTEGER NOT NULL,
    PRIMARY KEY (project, agent_id, stream)
) WITHOUT ROWID;

CREATE TABLE immune_lease (
    one           INTEGER NOT NULL CHECK (one = 1),
    holder        TEXT    NOT NULL,
    expires_at_ms INTEGER NOT NULL,
    PRIMARY KEY (one)
) WITHOUT ROWID;

CREATE INDEX transitions_agent ON transitions (project, agent_id, transition_id);
CREATE INDEX incidents_agent ON incidents (project, agent_id, incident_id);
CREATE INDEX incidents_project ON incidents (project, incident_id);
CREATE INDEX approvals_project ON approvals (project, approval_id);
