-- A box that has ended belongs to nobody (''), until its cards are taken away. Of those there are few, and they are found by an
-- index that holds them alone.

CREATE INDEX box_owners_ended ON box_owners (agent_id, project, box_id) WHERE agent_id = '';

-- A save that names boxes holds them until it is committed: whoever ends one waits for saves that found it there, and every save
-- that comes later finds it gone.
CREATE FUNCTION boxes_stay(projects text[], boxes text[]) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
    gone text;
BEGIN
    PERFORM pg_advisory_xact_lock_shared(hashtextextended(w.box_id, 0))
    FROM (SELECT box_id FROM unnest(boxes) AS n (box_id) ORDER BY box_id) AS w;
    SELECT json_agg(json_build_array(w.project, w.box_id))::text INTO gone
    FROM unnest(projects, boxes) AS w (project, box_id)
    WHERE EXISTS (
        SELECT FROM box_owners AS o WHERE o.project = w.project AND o.box_id = w.box_id AND o.agent_id = ''
    ) OR NOT (
        EXISTS (SELECT FROM cards AS c WHERE c.scope = substr(w.box_id, 5) AND c.project = w.project)
        OR EXISTS (SELECT FROM turns AS t WHERE t.project = w.project AND t.turn_id = 'turn_' || substr(w.box_id, 5))
        OR EXISTS (SELECT FROM box_owners AS b WHERE b.project = w.project AND b.box_id = w.box_id)
    );
    IF gone IS NOT NULL THEN
        RAISE EXCEPTION 'boxes_gone' USING ERRCODE = 'integrity_constraint_violation', DETAIL = gone;
    END IF;
    RETURN true;
END
$$;
