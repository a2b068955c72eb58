-- Turns of a run that have no deliverable yet, behind one of them.
SELECT t.agent_id, t.turn_id FROM turns AS t
WHERE t.run_id = ?2 AND t.project = ?1 AND t.turn_id > ?3
    AND NOT EXISTS (SELECT 1 FROM cards AS c WHERE c.scope = substr(t.turn_id, 6) AND c.position = 0)
ORDER BY t.turn_id LIMIT ?4
