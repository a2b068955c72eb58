-- Every driver with what it said last; and if there is a live run that none of them has, a row of nothing.
SELECT driver, expires_at_ms FROM run_drivers
UNION ALL
SELECT NULL::text, NULL::bigint WHERE EXISTS (
    SELECT 1 FROM runs AS r
    WHERE r.live = 1 AND NOT EXISTS (SELECT 1 FROM run_drivers AS d WHERE d.driver = r.driver)
)
