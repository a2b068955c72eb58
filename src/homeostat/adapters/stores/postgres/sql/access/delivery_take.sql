-- Takes an alert that is due, until a later time; of several who try, one gets it.
UPDATE deliveries SET next_at_ms = $3 WHERE delivery_id = $1 AND next_at_ms = $2
RETURNING delivery_id
