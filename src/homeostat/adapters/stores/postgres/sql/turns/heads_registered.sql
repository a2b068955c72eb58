-- Which of some agents there are; $1 are projects, $2 agents.
SELECT wanted.project, wanted.agent_id
FROM unnest($1::text[], $2::text[]) AS wanted (project, agent_id)
-- OFFSET 0 keeps the planner from going through all heads.
CROSS JOIN LATERAL (
    SELECT 1 FROM heads AS h
    WHERE h.project = wanted.project AND h.agent_id = wanted.agent_id OFFSET 0
) AS h
