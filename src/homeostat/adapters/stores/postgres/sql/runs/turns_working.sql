-- Those of some turns that are the active ones of their agents, and which call each of them made first after a time.
SELECT h.turn_id, h.status, h.since_ms,
    (SELECT min(w.created_at_ms) FROM waits AS w WHERE w.turn_id = h.turn_id AND w.created_at_ms >= $4)
FROM heads AS h
WHERE h.project = $1 AND h.agent_id = ANY($2::text[]) AND h.turn_id = ANY($3::text[])
