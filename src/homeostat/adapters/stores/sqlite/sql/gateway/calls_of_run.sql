-- A page of one run's calls, newest first.
SELECT call_id, project, agent_id, run_id, trace_id, upstream, api, path, model, streamed, outcome, status, code,
    policy_id, started_at_ms, latency_ms, first_token_ms, tokens_in, tokens_out, tokens_cached, tokens_written,
    tokens_reasoning, metered, cost_micros, priced, retries, prompt_hash, tools_offered, tool_calls, repeats
FROM calls INDEXED BY calls_run
WHERE project = ?1 AND call_id < ?2 AND call_id >= ?3 AND (?4 IS NULL OR agent_id = ?4) AND run_id = ?5
    AND (?6 IS NULL OR outcome = ?6) AND (?7 IS NULL OR model = ?7)
ORDER BY call_id DESC LIMIT ?8
