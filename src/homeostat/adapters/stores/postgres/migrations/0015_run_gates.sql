-- Gates of runs are asked once for a whole save, and not once more for each turn in it; and not only whether a turn may
-- be made but whether it may begin: a turn that stood in line when its run was killed is entered by nobody.
--
-- A save locks the gates it asks against change until it is committed: whoever closes one waits for saves that found it
-- open, and every save that comes later finds it closed.

DROP TRIGGER turns_of_runs ON turns;
DROP FUNCTION turns_of_runs();

CREATE FUNCTION run_gates_pass(wanted text[], tasks text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    shut text;
BEGIN
    SELECT string_agg(g.run_id || ' ' || g.state, ',') INTO shut
    FROM (SELECT run_id, state FROM run_gates WHERE run_id = ANY (wanted) ORDER BY run_id FOR SHARE) AS g
    WHERE g.state = 'closed' OR (g.state = 'holding' AND g.run_id = ANY (tasks));
    IF shut IS NOT NULL THEN
        RAISE EXCEPTION 'run_gates_shut' USING ERRCODE = 'integrity_constraint_violation', DETAIL = shut;
    END IF;
    RETURN true;
END
$$;
