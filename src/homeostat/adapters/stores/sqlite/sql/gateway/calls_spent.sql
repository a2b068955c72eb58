-- What agents have spent between two calls, by agent.
SELECT agent_id, count(*), COALESCE(sum(cost_micros), 0)
FROM calls
WHERE project = ?1 AND call_id >= ?2 AND call_id < ?3
GROUP BY agent_id
