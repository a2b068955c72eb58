-- What a save does because of agents' health is done only while that is as it was: whoever is late does not undo what another was
-- told since. A save that finds it so keeps it so until it is committed.

CREATE FUNCTION mandates_hold(projects text[], agents text[], versions bigint[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    void text;
BEGIN
    SELECT json_agg(json_build_array(m.project, m.agent_id, m.version))::text INTO void
    FROM (
        SELECT w.project, w.agent_id, w.version, p.version AS now
        FROM unnest(projects, agents, versions) AS w (project, agent_id, version)
        JOIN patients AS p ON p.project = w.project AND p.agent_id = w.agent_id
        ORDER BY w.project, w.agent_id FOR SHARE OF p
    ) AS m
    WHERE m.now > m.version;
    IF void IS NOT NULL THEN
        RAISE EXCEPTION 'mandates_void' USING ERRCODE = 'integrity_constraint_violation', DETAIL = void;
    END IF;
    RETURN true;
END
$$;
