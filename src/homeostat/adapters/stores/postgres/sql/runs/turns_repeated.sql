-- The turns of a run that were made for one attempt of one task, where there are several. Those that agents asked of each other are
-- none of them; what a run calls its turns begins with its own name.
SELECT t.correlation_id, t.turn_id FROM turns AS t
WHERE t.run_id = $1::text AND t.parent_turn_id IS NULL AND t.correlation_id IN (
    SELECT o.correlation_id FROM turns AS o
    WHERE o.run_id = $1 AND o.parent_turn_id IS NULL AND substr(o.correlation_id, 1, length($1) + 1) = $1 || '/'
    GROUP BY o.correlation_id HAVING count(*) > 1
)
ORDER BY t.correlation_id, t.turn_id
