-- Some turns and all that they asked of others, parents first. ?1 is the project, ?2 a JSON list of turns.
WITH RECURSIVE tree (turn_id) AS (
    SELECT value FROM json_each(?2)
    UNION
    SELECT child.turn_id FROM tree JOIN turns AS child ON child.parent_turn_id = tree.turn_id
)
SELECT t.turn_id, t.project, t.agent_id, t.seq, t.type, t.payload, t.correlation_id, t.source, t.parent_turn_id,
    t.parent_step_id, t.reply_call_id, t.trace_id, t.depth, t.run_id, t.context_box_id, t.output_box_id, t.result_fields,
    t.previous_turn_id, t.created_at_ms, t.context_until
FROM tree JOIN turns AS t ON t.turn_id = tree.turn_id
WHERE t.project = ?1
ORDER BY t.depth, t.turn_id
