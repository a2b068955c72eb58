-- Tasks in three parts, by how they change: a row for each was written three times in full.
--
-- run_plans     what tasks are to do, many a row; never changed.
-- run_states    how far they are, 32 a row, a line each; a line that is empty is that of a task which never moved.
-- run_remains   what is told of a task beside that: why it failed, what it delivered if another task asks for it, and what of its
--               turn stands in the ledger already. Most tasks have nothing of it.

CREATE TABLE run_plans (
    run_id       text COLLATE "C" NOT NULL,
    first_number bigint           NOT NULL,
    last_number  bigint           NOT NULL CHECK (last_number >= first_number),
    specs        text             NOT NULL,
    PRIMARY KEY (run_id, first_number)
);

CREATE TABLE run_states (
    run_id text COLLATE "C" NOT NULL,
    place  bigint           NOT NULL,
    states text             NOT NULL,
    PRIMARY KEY (run_id, place)
);

CREATE TABLE run_remains (
    run_id text COLLATE "C" NOT NULL,
    number bigint           NOT NULL,
    error  text,
    result text,
    noted  text,
    PRIMARY KEY (run_id, number)
);

INSERT INTO run_plans (run_id, first_number, last_number, specs)
SELECT run_id, number, number, '[' || spec || ']' FROM run_tasks;

INSERT INTO run_states (run_id, place, states)
SELECT run_id, number / 32,
    string_agg(
        json_build_array(status, attempt, turn_id, agent_id, not_before_ms, started_at_ms, ended_at_ms, approved_by)::text,
        E'\n' ORDER BY number
    ) || repeat(E'\n', 32 - count(*)::integer)
FROM run_tasks GROUP BY run_id, number / 32;

INSERT INTO run_remains (run_id, number, error, result, noted)
SELECT run_id, number, error, result, noted FROM run_tasks
WHERE error IS NOT NULL OR result IS NOT NULL OR noted IS NOT NULL;

DROP TABLE run_tasks;
