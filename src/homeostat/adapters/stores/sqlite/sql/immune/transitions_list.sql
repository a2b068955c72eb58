-- An agent's steps, newest first.
SELECT transition FROM transitions
WHERE project = ?1 AND agent_id = ?2 AND transition_id < ?3
ORDER BY transition_id DESC LIMIT ?4
