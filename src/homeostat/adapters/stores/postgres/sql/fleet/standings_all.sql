-- How every agent stood when it was last written down.
SELECT agent_id, presence, since_ms, received_ms, counted_ms, interval_ms, status FROM standings ORDER BY agent_id
