-- Tasks in three parts, by how they change: a row for each was written three times in full.
--
-- run_plans     what tasks are to do, many a row; never changed.
-- run_states    how far they are, 32 a row, a line each; a line that is empty is that of a task which never moved.
-- run_remains   what is told of a task beside that: why it failed, what it delivered if another task asks for it, and what of its
--               turn stands in the ledger already. Most tasks have nothing of it.

CREATE TABLE run_plans (
    run_id       TEXT    NOT NULL,
    first_number INTEGER NOT NULL,
    last_number  INTEGER NOT NULL CHECK (last_number >= first_number),
    specs        TEXT    NOT NULL,
    PRIMARY KEY (run_id, first_number)
);

CREATE TABLE run_states (
    run_id TEXT    NOT NULL,
    place  INTEGER NOT NULL,
    states TEXT    NOT NULL,
    PRIMARY KEY (run_id, place)
);

CREATE TABLE run_remains (
    run_id TEXT    NOT NULL,
    number INTEGER NOT NULL,
    error  TEXT,
    result TEXT,
    noted  TEXT,
    PRIMARY KEY (run_id, number)
);

INSERT INTO run_plans (run_id, first_number, last_number, specs)
SELECT run_id, number, number, '[' || spec || ']' FROM run_tasks;

INSERT INTO run_states (run_id, place, states)
SELECT run_id, place, group_concat(state, char(10)) || substr(replace(hex(zeroblob(16)), '0', char(10)), 1, 32 - count(*))
FROM (
    SELECT run_id, number / 32 AS place,
        json_array(status, attempt, turn_id, agent_id, not_before_ms, started_at_ms, ended_at_ms, approved_by) AS state
    FROM run_tasks ORDER BY run_id, number
)
GROUP BY run_id, place;

INSERT INTO run_remains (run_id, number, error, result, noted)
SELECT run_id, number, error, result, noted FROM run_tasks
WHERE error IS NOT NULL OR result IS NOT NULL OR noted IS NOT NULL;

DROP TABLE run_tasks;
