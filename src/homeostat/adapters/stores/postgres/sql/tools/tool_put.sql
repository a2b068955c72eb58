-- Makes tools known, or known anew.
INSERT INTO tools (project, name, description, parameters, updated_at_ms)
SELECT $1, name, description, parameters, $5
FROM unnest($2::text[], $3::text[], $4::text[]) AS given (name, description, parameters)
ON CONFLICT (project, name) DO UPDATE SET description = excluded.description, parameters = excluded.parameters,
    updated_at_ms = excluded.updated_at_ms
