-- Wants nothing of one strategy about an agent any more: it never reached it.
DELETE FROM enforcements WHERE project = $1 AND agent_id = $2 AND strategy = $3
