-- Changes what a gateway holds of an account.
INSERT INTO holds AS held (gateway_id, project, kind, holder, tokens, micros) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (gateway_id, project, kind, holder) DO UPDATE SET tokens = held.tokens + excluded.tokens,
    micros = held.micros + excluded.micros
