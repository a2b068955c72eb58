-- Removes every policy that fits a filter; what it does not name fits all.
DELETE FROM policies
WHERE project = $1 AND ($2::text IS NULL OR agent_id = $2) AND ($3::text IS NULL OR origin = $3)
    AND ($4::text IS NULL OR action = $4)
RETURNING policy_id
