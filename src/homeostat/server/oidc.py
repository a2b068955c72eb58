"""Logging in with an OpenID provider: away with a question, back with an answer."""

from typing import Final

from homeostat.core.codec import read_as
from homeostat.core.errors import RouteUnknown, Unauthenticated
from homeostat.core.ports.provider import IdentityProvider, Journey, LoginFailed
from homeostat.core.wire import access as w
from homeostat.server.answers import Answer
from homeostat.server.call import Call
from homeostat.server.doorkeeper import cookie
from homeostat.server.endpoints import Routes
from homeostat.server.login import encrypted, welcome

routes = Routes("access")

COOKIE: Final = "homeostat_login"
PATH: Final = "/v1/login/oidc"
BACK: Final = f"{PATH}/callback"


@routes.plain("GET", PATH, status=303, errors=(RouteUnknown, LoginFailed))
async def oidc_begin(call: Call) -> Answer:
    """Go to the provider that vouches for people."""
    access = call.system.access
    base = call.system.settings.public_url or f"{call.scope['scheme']}://{call.headers.get(b'host', b'').decode()}"
    url, journey = await _provider(call).depart(base.rstrip("/") + BACK)
    secret = call.system.ids.token()
    await access.logins.remember(secret, journey)
    # Lax, for the way back begins on the provider's page; it is good for this one journey.
    parts = f"{COOKIE}={secret}; Path={PATH}; Max-Age=600; HttpOnly; SameSite=Lax"
    kept = parts + ("; Secure" if encrypted(call) else "")
    headers = ((b"location", url.encode()), (b"set-cookie", kept.encode()), (b"cache-control", b"no-store"))
    return Answer(303, b"", b"text/plain", headers)


@routes.taking("GET", BACK, w.OidcAnswer, status=303, errors=(RouteUnknown, LoginFailed, Unauthenticated))
async def oidc_end(call: Call, answer: w.OidcAnswer) -> Answer:
    """Come back from the provider, and on to the dashboard."""
    provider, access = _provider(call), call.system.access
    if answer.error:
        raise LoginFailed(problem=answer.error)
    secret = cookie(call, COOKIE)
    if secret is None:
        raise LoginFailed(problem="this browser did not ask")
    journey = read_as(Journey, await access.logins.recall(secret))
    principal = await provider.arrive(journey, state=answer.state, code=answer.code)
    return welcome(call, await access.logins.begin(principal))


def _provider(call: Call) -> IdentityProvider:
    provider = call.system.provider
    if provider is None:
        raise RouteUnknown(path=PATH)
    return provider
