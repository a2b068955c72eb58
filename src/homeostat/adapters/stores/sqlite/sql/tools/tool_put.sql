-- Makes a tool known, or known anew.
INSERT INTO tools (project, name, description, parameters, updated_at_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (project, name) DO UPDATE SET description = excluded.description, parameters = excluded.parameters,
    updated_at_ms = excluded.updated_at_ms
