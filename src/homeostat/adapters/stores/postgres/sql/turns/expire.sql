-- Forgets turns that ended before the instant $3, at most $2 of them, with all that belongs to them but for cards
-- another box refers to, and for boxes that have a writer: what later turns remember lies there, too, and no place in them is
-- taken twice. Forgets as many answers; returns how many of both there were, and remembers up to where it went.
-- None was asked for after $1. Of several processes that forget at once each waits for the one before.
-- Projects are looked through one after the other, each found behind the one before it. Writers are looked up one by one: a join
-- would read them all.
WITH RECURSIVE mark AS MATERIALIZED (SELECT turn_id FROM swept FOR UPDATE),
projects (project) AS (
    SELECT min(project) FROM turns WHERE project > ''
    UNION ALL
    SELECT (SELECT min(t.project) FROM turns AS t WHERE t.project > p.project) FROM projects AS p
    WHERE p.project IS NOT NULL
),
old AS MATERIALIZED (
    SELECT t.project, t.turn_id, substr(t.turn_id, 6) AS scope FROM projects AS p CROSS JOIN LATERAL (
        SELECT * FROM turns
        WHERE (SELECT count(*) FROM mark) >= 0 AND turns.project = p.project AND turns.turn_id < $1
            AND EXISTS (
                SELECT FROM cards AS c
                WHERE c.scope = substr(turns.turn_id, 6) AND c.position = 0 AND c.created_at_ms < $3
            )
        ORDER BY turns.turn_id LIMIT $2
    ) AS t
    LIMIT $2
),
expired_cards AS (
    DELETE FROM cards AS c USING old
    WHERE c.scope = old.scope AND (
        SELECT o.agent_id FROM box_owners AS o WHERE o.project = old.project AND o.box_id = 'box_' || old.scope
    ) IS NULL AND NOT EXISTS (
        SELECT FROM cards AS other
        WHERE other.reference = 'card_' || c.scope || '_' || c.position || '_' || c.digest
    )
),
expired_steps AS (DELETE FROM steps AS s USING old WHERE s.turn_id = old.turn_id),
expired_waits AS (DELETE FROM waits AS w USING old WHERE w.turn_id = old.turn_id),
expired_turns AS (DELETE FROM turns AS t USING old WHERE t.project = old.project AND t.turn_id = old.turn_id),
marked AS (
    UPDATE swept SET turn_id = greatest(turn_id, (SELECT max(old.turn_id) FROM old)) WHERE EXISTS (SELECT FROM old)
),
expired_answers AS (
    DELETE FROM answers WHERE (project, key) IN (
        SELECT project, key FROM answers WHERE created_at_ms < $3 ORDER BY created_at_ms LIMIT $2
    )
    RETURNING 1
)
SELECT (SELECT count(*) FROM old) + (SELECT count(*) FROM expired_answers)
