"""What can be wrong with a key or a login.

ProtocolViolation: KeyUnknown
Refused: TokenMissing · LoginFailed
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


class LoginFailed(Refused):
    """The provider's answer does not let anybody in: {problem}."""

    code = "login_failed"
    hint = "Begin again at /v1/login/oidc; the server's log has more."
