-- Idle agents with mail behind an open gate: there should be none.
SELECT project, agent_id FROM heads WHERE status = 'idle' AND queued > 0 AND gate = 'open' LIMIT ?1
