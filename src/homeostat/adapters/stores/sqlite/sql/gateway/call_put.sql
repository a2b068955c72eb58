-- A call is over; one that was settled by others in the meantime stays as they settled it.
INSERT INTO calls (call_id, project, agent_id, run_id, trace_id, upstream, api, path, model, streamed, outcome, status, code,
    policy_id, started_at_ms, latency_ms, first_token_ms, tokens_in, tokens_out, tokens_cached, tokens_written,
    tokens_reasoning, metered, cost_micros, priced, retries, prompt_hash, tools_offered, tool_calls, repeats)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30)
ON CONFLICT (call_id) DO NOTHING
