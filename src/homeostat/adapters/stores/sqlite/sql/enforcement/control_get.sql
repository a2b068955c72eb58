-- Where an agent takes orders.
SELECT control FROM controls WHERE project = ?1 AND agent_id = ?2
