-- Everybody in custody.
SELECT custody FROM custodies ORDER BY project, agent_id
