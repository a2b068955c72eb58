-- How many calls of an agent are open.
SELECT count(*) FROM flights WHERE project = ?1 AND agent_id = ?2
