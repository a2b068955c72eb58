-- The immune system on PostgreSQL: the tables of SQLite, with the same names and the same meaning.
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
    project  text COLLATE "C" NOT NULL,
    agent_id text COLLATE "C" NOT NULL,
    version  bigint           NOT NULL,
    phase    text             NOT NULL CHECK (phase IN ('initializing', 'healthy', 'suspected', 'draining', 'quarantined', 'healing', 'probation', 'exhausted')),
    patient  text             NOT NULL,
    PRIMARY KEY (project, agent_id)
);

CREATE TABLE transitions (
    transition_id text COLLATE "C" NOT NULL,
    project       text COLLATE "C" NOT NULL,
    agent_id      text COLLATE "C" NOT NULL,
    transition    text             NOT NULL,
    PRIMARY KEY (transition_id)
);

CREATE TABLE incidents (
    incident_id text COLLATE "C" NOT NULL,
    project     text COLLATE "C" NOT NULL,
    agent_id    text COLLATE "C",
    incident    text             NOT NULL,
    PRIMARY KEY (incident_id)
);

CREATE TABLE approvals (
    approval_id text COLLATE "C" NOT NULL,
    project     text COLLATE "C" NOT NULL,
    agent_id    text COLLATE "C" NOT NULL,
    status      text             NOT NULL CHECK (status IN ('pending', 'approved', 'rejected', 'expired')),
    approval    text             NOT NULL,
    PRIMARY KEY (approval_id)
);

CREATE TABLE lessons (
    project      text COLLATE "C" NOT NULL,
    agent_id     text COLLATE "C" NOT NULL,
    diagnosis    text COLLATE "C" NOT NULL,
    action       text COLLATE "C" NOT NULL,
    cured        bigint           NOT NULL,
    failed       bigint           NOT NULL,
    failed_at_ms bigint           NOT NULL,
    PRIMARY KEY (project, agent_id, diagnosis, action)
);

CREATE TABLE feedback (
    feedback_id text COLLATE "C" NOT NULL,
    project     text COLLATE "C" NOT NULL,
    agent_id    text COLLATE "C" NOT NULL,
    feedback    text             NOT NULL,
    PRIMARY KEY (feedback_id)
);

CREATE TABLE baselines (
    project     text COLLATE "C" NOT NULL,
    agent_id    text COLLATE "C" NOT NULL,
    stream      text COLLATE "C" NOT NULL,
    state       bytea            NOT NULL,
    habits      text             NOT NULL,
    saved_at_ms bigint           NOT NULL,
    PRIMARY KEY (project, agent_id, stream)
);

CREATE TABLE immune_lease (
    one           integer NOT NULL CHECK (one = 1),
    holder        text    NOT NULL,
    expires_at_ms bigint  NOT NULL,
    PRIMARY KEY (one)
);

CREATE INDEX transitions_agent ON transitions (project, agent_id, transition_id);
CREATE INDEX incidents_agent ON incidents (project, agent_id, incident_id);
CREATE INDEX incidents_project ON incidents (project, incident_id);
CREATE INDEX approvals_project ON approvals (project, approval_id);
