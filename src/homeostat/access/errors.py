"""What can be wrong with a key or a login.

ProtocolViolation: KeyUnknown · WebhookUnknown
Conflict: RequestUnderWay · SecretNotKept · VersionStale
Refused: TokenMissing
"""

from homeostat.core.errors import Conflict, ProtocolViolation, Refused


class KeyUnknown(ProtocolViolation):
    """There is no key {key_id!r} that could be changed."""

    code = "key_unknown"
    http_status = 404
    hint = "GET /v1/keys, or `homeostat key list`, has the ids."


class WebhookUnknown(ProtocolViolation):
    """There is no webhook {name!r}."""

    code = "webhook_unknown"
    http_status = 404
    hint = "GET /v1/webhooks lists them."


class TokenMissing(Refused):
    """A page that acts for somebody who is logged in has to show its token."""

    code = "csrf_token_missing"
    hint = "Send X-Homeostat-CSRF with the csrf_token of GET /v1/session."


class RequestUnderWay(Conflict):
    """The request with Idempotency-Key {key!r} is still under way."""

    code = "request_under_way"
    hint = "Ask again in a moment, with the same key and body."


class SecretNotKept(Conflict):
    """This was done before, and its answer held a secret that nobody keeps."""

    code = "secret_not_kept"
    hint = "Rotate the key to get a secret again: homeostat key rotate."


class VersionStale(Conflict):
    """It was changed since you read it; it is at {etag} now."""

    code = "version_stale"
    http_status = 412
    hint = "Look at `current`, decide again, and send its ETag in If-Match."
