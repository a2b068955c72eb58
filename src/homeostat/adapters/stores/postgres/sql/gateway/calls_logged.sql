-- How many tokens the log has of an agent from one call on, and how many of the lines are of calls that nobody lived to settle.
SELECT COALESCE(sum(tokens), 0)::bigint, COALESCE(sum(CASE WHEN outcome = 'lost' THEN 1 ELSE 0 END), 0)::bigint FROM calls
WHERE project = $1 AND agent_id = $2 AND call_id >= $3
