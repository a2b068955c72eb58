-- Agents whose turn nobody entered, or whose queue nobody dispatched, for too long.
SELECT project, agent_id FROM heads
WHERE (status = 'dispatched' OR (status = 'idle' AND queued > 0 AND gate = 'open'))
    AND gate <> 'closed' AND since_ms <= ?1
ORDER BY since_ms LIMIT ?2
