-- Calls are over; those that were settled by others in the meantime stay as they settled them. They come as one text
-- that is taken apart here, which costs their sender a fraction of what as many rows do; what it leaves out has its
-- default. Where one of them holds a NUL, which cannot be taken apart, the columns come there and the calls beside them.
-- Its members are read all at once: `->>` would read the whole of a call for each of them.
INSERT INTO calls (call_id, project, agent_id, run_id, model, outcome, tokens, cost_micros, call)
SELECT
    call_id,
    project,
    agent_id,
    run_id,
    coalesce(model, ''),
    outcome,
    coalesce((usage ->> 'tokens_in')::bigint, 0) + coalesce((usage ->> 'tokens_out')::bigint, 0),
    CASE WHEN cost_micros IS NULL AND one -> 'cost_micros' IS NULL THEN 0 ELSE cost_micros END,
    coalesce(whole, one::text)
FROM ROWS FROM (
    json_to_recordset($1::text::json) AS (
        call_id text, project text, agent_id text, run_id text, model text, outcome text, usage json, cost_micros bigint
    ),
    json_array_elements($1::text::json),
    unnest($2::text[])
) AS over (call_id, project, agent_id, run_id, model, outcome, usage, cost_micros, one, whole)
ON CONFLICT (call_id) DO NOTHING
