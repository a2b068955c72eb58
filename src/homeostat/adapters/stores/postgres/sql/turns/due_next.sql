-- When something will be due: the first lease to end, the first deadline.
SELECT min(instant) FROM (
    SELECT min(expires_at_ms) AS instant FROM leases
    UNION ALL
    SELECT min(deadline_ms) FROM waits WHERE status = 'pending'
) AS instants
