-- A turn as it stands, and those before it in its agent's history: with its place in line, its head and lease, its
-- deliverable and its waits. ?1 is the project, ?2 the first turn, ?3 how many.
WITH RECURSIVE chain AS (
    SELECT t.*, 1 AS place FROM turns AS t WHERE t.turn_id = ?2 AND t.project = ?1
    UNION ALL
    SELECT t.*, chain.place + 1
    FROM chain JOIN turns AS t ON t.turn_id = chain.previous_turn_id AND t.project = ?1
    WHERE chain.place < ?3
)
SELECT t.turn_id, t.project, t.agent_id, t.seq, t.type, t.payload, t.correlation_id, t.source, t.parent_turn_id,
    t.parent_step_id, t.reply_call_id, t.trace_id, t.depth, t.run_id, t.context_box_id, t.output_box_id,
    t.result_fields, t.previous_turn_id, t.created_at_ms, t.context_until, i.starts, i.losses, i.cards, h.project,
    h.agent_id, h.version, h.status, h.epoch, h.turn_id, h.worker_id, h.starts, h.losses, h.cards, h.gate, h.gate_reason,
    h.queued, h.tail_seq, h.last_turn_id, h.waiting, h.deadline_ms, h.since_ms, l.expires_at_ms, c.project, c.scope,
    c.position, c.type, c.content, c.digest, c.author, c.created_at_ms, c.reference,
    (
        SELECT json_group_array(json_array(
            w.turn_id, w.call_id, w.project, w.agent_id, w.tool, w.status, w.after_execution, w.step_id, w.call_card_id,
            w.result_card_id, w.created_at_ms, w.deadline_ms, w.answered_at_ms
        ))
        FROM waits AS w WHERE w.turn_id = t.turn_id
    ) AS waits
FROM chain AS t
LEFT JOIN inbox AS i ON i.project = t.project AND i.agent_id = t.agent_id AND i.seq = t.seq
LEFT JOIN heads AS h ON h.project = t.project AND h.agent_id = t.agent_id
LEFT JOIN leases AS l ON l.worker_id = h.worker_id
LEFT JOIN cards AS c ON c.scope = substr(t.turn_id, 6) AND c.position = 0
ORDER BY t.place
