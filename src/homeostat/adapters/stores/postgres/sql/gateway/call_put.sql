-- Calls are over; those that were settled by others in the meantime stay as they settled them. They come as one text
-- that is taken apart here, which costs their sender a fraction of what as many rows do; what it leaves out has its
-- default. Where one of them holds a NUL, which cannot be taken apart, the columns come there and the calls beside them.
INSERT INTO calls (call_id, project, agent_id, run_id, model, outcome, tokens, cost_micros, call)
SELECT
    one ->> 'call_id',
    one ->> 'project',
    one ->> 'agent_id',
    one ->> 'run_id',
    coalesce(one ->> 'model', ''),
    one ->> 'outcome',
    coalesce((one #>> '{usage,tokens_in}')::bigint, 0) + coalesce((one #>> '{usage,tokens_out}')::bigint, 0),
    CASE WHEN one -> 'cost_micros' IS NULL THEN 0 ELSE (one ->> 'cost_micros')::bigint END,
    coalesce(whole, one::text)
FROM ROWS FROM (json_array_elements($1::text::json), unnest($2::text[])) AS over (one, whole)
ON CONFLICT (call_id) DO NOTHING
