-- Idle agents with mail behind an open gate: there should be none.
SELECT project, agent_id FROM heads WHERE stranded LIMIT $1
