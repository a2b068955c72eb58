-- A driver is alive until then.
INSERT INTO run_drivers (driver, expires_at_ms) VALUES ($1, $2) ON CONFLICT (driver) DO UPDATE SET expires_at_ms = excluded.expires_at_ms
