-- Everything that is wanted of anybody.
SELECT hold FROM enforcements ORDER BY project, agent_id, strategy
