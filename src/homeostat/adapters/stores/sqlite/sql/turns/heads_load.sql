-- The heads of some agents; ?1 is a JSON list of [project, agent_id].
SELECT h.project, h.agent_id, h.version, h.status, h.epoch, h.turn_id, h.worker_id, h.starts, h.losses, h.cards, h.gate,
    h.gate_reason, h.queued, h.tail_seq, h.last_turn_id, h.waiting, h.deadline_ms, h.since_ms
FROM json_each(?1) AS wanted
JOIN heads AS h
    ON h.project = json_extract(wanted.value, '$[0]') AND h.agent_id = json_extract(wanted.value, '$[1]')
