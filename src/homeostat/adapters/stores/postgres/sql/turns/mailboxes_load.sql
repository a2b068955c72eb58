-- The mailboxes of some agents in one snapshot: a row for each head with its active turn and for each turn at the
-- front of its line, with their waits; one row for a head that has neither. $1 are projects, $2 agents, $3 how long a
-- front is.
SELECT h.project, h.agent_id, h.version, h.status, h.epoch, h.turn_id, h.worker_id, h.starts, h.losses, h.cards,
    h.gate, h.gate_reason, h.queued, h.tail_seq, h.last_turn_id, h.waiting, h.deadline_ms, h.since_ms, t.turn_id,
    t.project, t.agent_id, t.seq, t.type, t.payload, t.correlation_id, t.source, t.parent_turn_id, t.parent_step_id,
    t.reply_call_id, t.trace_id, t.depth, t.run_id, t.context_box_id, t.output_box_id, t.result_fields,
    t.previous_turn_id, t.created_at_ms, t.context_until, o.starts, o.losses, o.cards,
    (
        SELECT json_agg(json_build_array(
            w.turn_id, w.call_id, w.project, w.agent_id, w.tool, w.status, w.after_execution, w.step_id, w.call_card_id,
            w.result_card_id, w.created_at_ms, w.deadline_ms, w.answered_at_ms
        ))
        FROM waits AS w WHERE w.turn_id = o.turn_id
    ) AS waits
FROM unnest($1::text[], $2::text[]) AS wanted (project, agent_id)
JOIN heads AS h ON h.project = wanted.project AND h.agent_id = wanted.agent_id
LEFT JOIN LATERAL (
    SELECT h.turn_id, -1 AS place, h.starts, h.losses, h.cards WHERE h.turn_id IS NOT NULL
    UNION ALL
    (
        SELECT i.turn_id, i.seq, i.starts, i.losses, i.cards FROM inbox AS i
        WHERE h.queued > 0 AND i.project = h.project AND i.agent_id = h.agent_id
        ORDER BY i.seq LIMIT $3
    )
) AS o ON true
LEFT JOIN turns AS t ON t.project = h.project AND t.turn_id = o.turn_id
ORDER BY h.project, h.agent_id, o.place
