-- Idle agents with mail behind an open gate, in rounds: $1 and $2 name the one to go on behind. There should be none, but
-- those whose mail is of runs that are held.
SELECT project, agent_id FROM heads WHERE stranded AND (agent_id, project) > ($1, $2)
ORDER BY agent_id, project LIMIT $3
