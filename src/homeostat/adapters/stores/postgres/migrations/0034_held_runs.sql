-- A run that is paused by force is held at its gate, and no longer by those alone who heard of the pause: none of its turns
-- is given out, and what they ask of other agents waits in line.

ALTER TABLE run_gates DROP CONSTRAINT run_gates_state_check,
    ADD CONSTRAINT run_gates_state_check CHECK (state IN ('open', 'holding', 'held', 'closed'));

CREATE INDEX run_gates_held ON run_gates (run_id) WHERE state = 'held';

UPDATE run_gates SET state = 'held'
WHERE state = 'holding' AND run_id IN (SELECT run_id FROM runs WHERE status = 'paused' AND run LIKE '%"forced":true%');

-- The function of the same name that takes two lists stays, for processes of before that are still at work.
CREATE FUNCTION run_gates_pass(wanted text[], begun text[], tasks text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    shut text;
BEGIN
    SELECT string_agg(g.run_id || ' ' || g.state, ',') INTO shut
    FROM (SELECT run_id, state FROM run_gates WHERE run_id = ANY (wanted) ORDER BY run_id FOR SHARE) AS g
    WHERE g.state = 'closed' OR (g.state = 'held' AND g.run_id = ANY (begun))
        OR (g.state = 'holding' AND g.run_id = ANY (tasks));
    IF shut IS NOT NULL THEN
        RAISE EXCEPTION 'run_gates_shut' USING ERRCODE = 'integrity_constraint_violation', DETAIL = shut;
    END IF;
    RETURN true;
END
$$;
