"""What can be wrong with a key or a login.

ProtocolViolation: KeyUnknown
Refused: TokenMissing
"""

from homeostat.core.errors import ProtocolViolation, Refused


class KeyUnknown(ProtocolViolation):
    """There is no key {key_id!r} that could be changed."""

    code = "key_unknown"
    http_status = 404
    hint = "GET /v1/keys, or `homeostat key list`, has the ids."


class TokenMissing(Refused):
    """A page that acts for somebody who is logged in has to show its token."""

    code = "csrf_token_missing"
    hint = "Send X-Homeostat-CSRF with the csrf_token of GET /v1/session."
