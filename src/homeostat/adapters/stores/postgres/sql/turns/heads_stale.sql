-- Which heads had moved: those the save could not take hold of. No row means that everything is written.
SELECT s.project, s.agent_id
FROM unnest($1::heads[]) AS s
WHERE NOT (SELECT ok FROM go)
    AND NOT EXISTS (SELECT FROM held WHERE held.project = s.project AND held.agent_id = s.agent_id)
