-- Which of some agents have a turn that waits for a worker; $1 are projects, $2 agents.
SELECT wanted.project, wanted.agent_id
FROM unnest($1::text[], $2::text[]) AS wanted (project, agent_id)
-- OFFSET 0 keeps the planner from going through all heads that wait for a worker.
CROSS JOIN LATERAL (
    SELECT status, gate FROM heads AS h
    WHERE h.project = wanted.project AND h.agent_id = wanted.agent_id OFFSET 0
) AS h
WHERE h.status = 'dispatched' AND h.gate <> 'closed' LIMIT $3
