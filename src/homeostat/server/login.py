"""How a browser comes in: a key for a cookie that no script can read, and a token that only its own pages know."""

from typing import Final

import msgspec

from homeostat.access.logins import SESSION_SECONDS, Begun, Session
from homeostat.core.clock import rfc3339
from homeostat.core.errors import Forbidden, InvalidRequest, Unauthenticated
from homeostat.core.ids import OPERATOR_KEY_PREFIX
from homeostat.core.records.access import Principal, PrincipalKind
from homeostat.core.wire import access as w
from homeostat.server.answers import JSON_TYPE, Answer
from homeostat.server.call import Call
from homeostat.server.doorkeeper import COOKIE, cookie
from homeostat.server.endpoints import NOTHING, Routes

routes = Routes("access")

HOME: Final = b"/"
_encode = msgspec.json.Encoder().encode


@routes.plain("GET", "/v1/session", gives=w.SessionShape, errors=(Unauthenticated,))
async def read_session(call: Call) -> w.SessionShape:
    """Who is asking, what they may do, and the token a page needs to change anything."""
    return _session(call, call.principal, call.session)


@routes.taking(
    "POST",
    "/v1/login",
    w.LoginBody,
    gives=w.SessionShape,
    errors=(Unauthenticated,),
    examples={"by key": {"key": "hk_0123456789abcdef0123456789abcdef0123456789abcdef"}},
)
async def login(call: Call, body: w.LoginBody) -> Answer:
    """Log a browser in: a key for a session cookie. An agent's key opens no session."""
    if not body.key.startswith(OPERATOR_KEY_PREFIX) or not body.key.isascii():
        raise Unauthenticated
    begun = await call.system.access.logins.begin(await call.system.access.keys.identify(body.key))
    shown = _session(call, begun.session.principal, begun.session)
    return Answer(200, _encode(shown), JSON_TYPE, (session_cookie(call, begun),))


@routes.plain("POST", "/v1/logout", status=204)
async def logout(call: Call) -> Answer:
    """End this browser's session."""
    if (secret := cookie(call, COOKIE)) is not None:
        await call.system.access.logins.end(secret)
    return Answer(NOTHING.status, b"", headers=((b"set-cookie", f"{COOKIE}=; Path=/; Max-Age=0".encode()),))


@routes.plain("POST", "/v1/login/tickets", gives=w.TicketShape, status=201, errors=(Forbidden, Unauthenticated))
async def make_ticket(call: Call) -> w.TicketShape:
    """A path that logs one browser in, once, within a minute: what `homeostat ui` opens."""
    if call.principal.kind is not PrincipalKind.KEY:
        raise InvalidRequest(problem="only a key is turned into a session this way; without login there is none")
    return w.TicketShape(path=f"/v1/login/ticket?ticket={await call.system.access.logins.ticket(call.principal)}")


@routes.taking("GET", "/v1/login/ticket", w.TicketQuery, status=303, errors=(Unauthenticated,))
async def login_by_ticket(call: Call, query: w.TicketQuery) -> Answer:
    """Come in by a ticket, and on to the dashboard."""
    return welcome(call, await call.system.access.logins.redeem(query.ticket))


def welcome(call: Call, begun: Begun) -> Answer:
    """Set the cookie and lead on to the dashboard; the address with its secret leaves the history."""
    headers = (session_cookie(call, begun), (b"location", HOME), (b"cache-control", b"no-store"))
    return Answer(303, b"", b"text/plain", (*headers, (b"referrer-policy", b"no-referrer")))


def session_cookie(call: Call, begun: Begun) -> tuple[bytes, bytes]:
    parts = f"{COOKIE}={begun.secret}; Path=/; Max-Age={int(SESSION_SECONDS)}; HttpOnly; SameSite=Strict"
    return (b"set-cookie", (parts + ("; Secure" if encrypted(call) else "")).encode())


def encrypted(call: Call) -> bool:
    """Whether the browser speaks TLS, with us or with the proxy that it believes to be us."""
    public = call.system.settings.public_url
    return call.scope.get("scheme") == "https" or (public is not None and public.startswith("https:"))


def _session(call: Call, principal: Principal, session: Session | None) -> w.SessionShape:
    return w.SessionShape(
        kind=principal.kind,
        name=principal.name,
        role=principal.role,
        project=principal.project,
        agent_id=principal.agent_id,
        login_required=call.system.access.required,
        oidc=call.system.settings.oidc_issuer is not None,
        csrf_token=None if session is None else session.csrf,
        expires_at=None if session is None else rfc3339(session.expires_at_ms),
    )
