-- Everybody whose health ever took a step.
SELECT DISTINCT project, agent_id FROM transitions ORDER BY project, agent_id
