-- Everything a gateway holds.
SELECT project, kind, holder, tokens, micros FROM holds WHERE gateway_id = $1
