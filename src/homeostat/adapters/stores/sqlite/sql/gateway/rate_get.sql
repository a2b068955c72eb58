-- What was drawn of one rate limit, by the second.
SELECT taken FROM rates WHERE project = ?1 AND policy_id = ?2 AND agent_id = ?3
