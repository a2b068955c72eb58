-- Removes a policy.
DELETE FROM policies WHERE project = $1 AND policy_id = $2 RETURNING 1
