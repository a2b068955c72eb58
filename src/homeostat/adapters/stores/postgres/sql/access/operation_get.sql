-- One operation.
SELECT held_until_ms, record FROM operations WHERE project = $1 AND operation_id = $2
