"""At the door of every route: who is calling, whether they may, and a note of what operators do."""

import asyncio
import logging
from collections.abc import Coroutine, Iterable
from dataclasses import replace
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final

import msgspec

from homeostat.access.authority import TABLE, Agents, Object, Row, authorize
from homeostat.access.errors import TokenMissing
from homeostat.app.assemble import System
from homeostat.core.codec import Json
from homeostat.core.errors import Forbidden, HomeostatError, InvalidRequest, OriginRefused, Unauthenticated, Unavailable
from homeostat.core.ids import OPERATOR_KEY_PREFIX, AgentId, digest_of, same_digest
from homeostat.core.limits import ADMITTED_SECONDS, MEMORY_BODY_BYTES_MAX, NAME_CHARS_MAX
from homeostat.core.records.access import LOCAL, NOBODY, Act, AuditOutcome, Principal, PrincipalKind
from homeostat.core.redaction import redact_text
from homeostat.server import names
from homeostat.server.answers import Answer
from homeostat.server.blast import EFFECTS, blast
from homeostat.server.call import SAFE_METHODS, Call
from homeostat.server.endpoints import Endpoint
from homeostat.server.operations import LONG, accepted
from homeostat.server.repeats import Repeats
from homeostat.server.versions import SHOWN, Versions, document_of, shown

log = logging.getLogger(__name__)

API: Final = ("/v1/", "/api/", "/otlp/")
COOKIE: Final = "homeostat_session"
PROVES_ITSELF: Final = "register"  # an agent that comes back shows a key that is on no register now
SHOWN_CHARS_MAX: Final = 2_000
NOTED_BODY_BYTES_MAX: Final = MEMORY_BODY_BYTES_MAX  # a reason is read wherever it stands


class _Said(msgspec.Struct, frozen=True):
    """What an order says of itself."""

    reason: str = ""
    actor: str = ""


_orders = msgspec.json.Decoder(_Said)


class Doorkeeper:
    """Asks one table for every route; what is not in it is open to nobody who had to log in."""

    def __init__(self, system: System, endpoints: Iterable[Endpoint]) -> None:
        self._system = system
        self._access = system.access
        self._by_name = {endpoint.name: endpoint for endpoint in endpoints}
        self._repeats = Repeats(system)
        self._versions = Versions(self._by_name)

    async def admit(self, call: Call, verb: str) -> None:
        """Find out who is calling, and let them in or say why not."""
        row = TABLE.get(verb)
        call.principal = principal = await self._principal(call, verb, row)
        if principal is LOCAL:
            return
        if row is None:
            log.error("route %r is allowed to nobody: give it a row in homeostat/access/authority.py", verb)
        if authorize(principal, verb, await self._target(call, row, principal)):
            return
        if principal.kind is PrincipalKind.NOBODY:
            raise Unauthenticated
        raise Forbidden(**_refusal(verb, names.object_of(call)))

    async def while_admitted(self, call: Call, verb: str, work: Coroutine[Any, Any, object]) -> bool:
        """Do what lasts for as long as its caller may have it; says whether it came to its own end."""
        if call.principal is LOCAL:
            await work
            return True
        working, refused = asyncio.ensure_future(work), asyncio.ensure_future(self._refused(call, verb))
        try:
            await asyncio.wait({working, refused}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                working.result()
            return working.done()
        finally:
            refused.cancel()
            if not working.done():
                working.cancel()
                await asyncio.wait({working})

    async def _refused(self, call: Call, verb: str) -> None:
        """Ends when a caller may no more: its key, its login or its agent has ended. Who cannot be asked goes on."""
        while True:
            await asyncio.sleep(ADMITTED_SECONDS)
            try:
                await self.admit(call, verb)
            except Unavailable:
                continue
            except HomeostatError:
                return

    async def run(self, call: Call, endpoint: Endpoint) -> Answer:
        """Do what is asked, once under one key, on the version that was seen; what an operator does is noted."""
        if endpoint.name in LONG and call.prefers_async and not call.dry_run:
            return await self._begun(call, endpoint)
        if endpoint.method == "GET" and endpoint.name not in SHOWN:
            return await endpoint.run(call)
        if call.dry_run and (answer := await _rehearsed(call, endpoint)) is not None:
            return answer

        async def act() -> Answer:
            return await self._noted(call, endpoint)

        async def guarded() -> Answer:
            return await self._versions.guarded(call, endpoint, act)

        return await self._repeats.once(call, endpoint, guarded)

    async def _begun(self, call: Call, endpoint: Endpoint) -> Answer:
        """Answer at once, and do it meanwhile: its answer is the operation's result."""
        said = _said(await call.read(endpoint.body_bytes_max), call)

        async def work() -> msgspec.Raw:
            return msgspec.Raw((await self._noted(call, endpoint)).body or b"null")

        async def begin() -> Answer:
            return await accepted(call, endpoint.name, work, actor=call.actor(said.actor or "local"))

        return await self._repeats.once(call, endpoint, begin)

    async def _noted(self, call: Call, endpoint: Endpoint) -> Answer:
        row = TABLE.get(endpoint.name)
        if row is None or not row.audited or call.principal.kind is PrincipalKind.AGENT or call.dry_run:
            return await endpoint.run(call)
        said = _said(await call.read(endpoint.body_bytes_max), call)
        before = await self._show(row, call)
        opening = self._act(call, endpoint, said, AuditOutcome.REQUESTED)
        entry = await self._access.store.append(opening)
        try:
            answer = await endpoint.run(call)
        except HomeostatError as error:
            changes = Json(msgspec.json.encode({"error": error.code}).decode())
            await self._close(opening, entry.seq, AuditOutcome.FAILED, changes)
            raise
        changes = _changes(
            before, document_of(answer.body) if self._shows_itself(row, endpoint) else await self._show(row, call)
        )
        await self._close(opening, entry.seq, AuditOutcome.DONE, changes)
        return answer

    # --- who -----------------------------------------------------------------------------------------------

    async def _principal(self, call: Call, verb: str, row: Row | None) -> Principal:
        unknown = NOBODY if self._access.required else LOCAL
        if b"authorization" in call.headers:
            # What machines ask (`/livez`, `/metrics`) is answered whatever they show, where nobody has to log in.
            asked = (row is not None and row.open) or not self._access.required
            if asked and not call.scope["path"].startswith(API):
                return unknown
            return await self._holder(call, verb, unknown)
        if not self._access.required or (secret := cookie(call, COOKIE)) is None:
            return unknown
        try:
            session = await self._access.logins.recognise(secret)
        except Unauthenticated:
            return unknown
        method = call.scope.get("method")
        if method is None and b"origin" not in call.headers:
            raise OriginRefused(origin="no origin", host=call.headers.get(b"host", b"").decode("latin-1"))
        if method is not None and method not in SAFE_METHODS:
            shown = call.headers.get(b"x-homeostat-csrf", b"").decode("latin-1")
            if not same_digest(shown, session.csrf):
                raise TokenMissing
        call.session = session
        return session.principal

    async def _holder(self, call: Call, verb: str, unknown: Principal) -> Principal:
        secret = call.bearer
        assert secret is not None
        if secret.startswith(OPERATOR_KEY_PREFIX):
            return await self._access.keys.identify(secret)
        if verb == PROVES_ITSELF:
            return unknown
        member = await self._system.fleet.identify(secret)
        entry = member.entry
        return Principal(kind=PrincipalKind.AGENT, name=entry.agent_id, project=entry.project, agent_id=entry.agent_id)

    async def _target(self, call: Call, row: Row | None, principal: Principal) -> Object:
        project = call.project
        if (named := call.parameters.get("agent_id")) is not None:
            return Object(project, AgentId(named))
        turn_id = call.parameters.get("turn_id")
        if (
            turn_id is not None
            and principal.kind is PrincipalKind.AGENT
            and row is not None
            and row.agents is Agents.OWN
        ):
            view = await self._system.kernel.store.turn(project, names.turn_id(turn_id))
            return Object(project, None if view is None else view.turn.agent_id)
        return Object(project)

    # --- what was done -------------------------------------------------------------------------------------

    def _act(self, call: Call, endpoint: Endpoint, said: _Said, outcome: AuditOutcome) -> Act:
        if call.trace_id is None:
            call.trace_id = self._system.ids.trace()
        return Act(
            at_ms=self._system.clock.now_ms(),
            actor=call.actor(said.actor or "local"),
            verb=endpoint.name,
            object=names.object_of(call),
            project=call.project,
            outcome=outcome,
            reason=redact_text(said.reason)[:SHOWN_CHARS_MAX],
            trace_id=call.trace_id,
        )

    async def _close(self, opening: Act, seq: int, outcome: AuditOutcome, changes: Json) -> None:
        now = self._system.clock.now_ms()
        await self._access.store.append(replace(opening, at_ms=now, outcome=outcome, changes=changes, of_seq=seq))

    def _shows_itself(self, row: Row, endpoint: Endpoint) -> bool:
        """Whether the answer is the object as its own route shows it: nobody has to read it a second time."""
        shows = self._by_name.get(row.shows)
        return shows is not None and shows.gives is not None and shows.gives is endpoint.gives

    async def _show(self, row: Row, call: Call) -> dict[str, Any] | None:
        endpoint = self._by_name.get(row.shows)
        return None if endpoint is None else await shown(endpoint, call)


async def _rehearsed(call: Call, endpoint: Endpoint) -> Answer | None:
    """What an order would do. None for what is none; whoever cannot tell says so, and does nothing."""
    row = TABLE.get(endpoint.name)
    if row is None or not row.audited:
        return None
    if not row.dry_run:
        raise InvalidRequest(problem=f"{endpoint.name} cannot be tried without being done; nothing was done")
    return await (blast(call, endpoint) if endpoint.name in EFFECTS else endpoint.run(call))


def cookie(call: Call, name: str) -> str | None:
    """The value of a cookie that came along."""
    raw = call.headers.get(b"cookie")
    if raw is None:
        return None
    try:
        found = SimpleCookie(raw.decode("latin-1")).get(name)
    except CookieError:
        return None
    return None if found is None else found.value


def _refusal(verb: str, thing: str) -> dict[str, str]:
    """What somebody may not do to what: `quarantine agent/ann`, `lift treatments of agent/ann`, `list keys`."""
    words = verb.split("_")
    if words[-1] == thing.partition("/")[0]:
        words.pop()
    return {"verb": " ".join(words), "object": f"of {thing}" if len(words) > 1 else thing}


def _said(body: bytes, call: Call) -> _Said:
    """Why, as far as the order says so; an order that cannot be read is refused by whoever reads it next."""
    if body and len(body) <= NOTED_BODY_BYTES_MAX:
        try:
            return _orders.decode(body)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return _Said()
    return _Said(reason=call.query.get("reason", ""), actor=call.query.get("actor", "")[:NAME_CHARS_MAX])


def _changes(before: dict[str, Any] | None, after: dict[str, Any] | None) -> Json:
    """What is otherwise than it was, name by name."""
    if before is None and after is None:
        return Json("{}")
    one, other = before or {}, after or {}
    changed = {
        name: [_brief(one.get(name)), _brief(other.get(name))]
        for name in sorted({*one, *other})
        if one.get(name) != other.get(name)
    }
    return Json(msgspec.json.encode(changed).decode())


def _brief(value: Any) -> Any:
    text = msgspec.json.encode(value).decode()
    return value if len(text) <= SHOWN_CHARS_MAX else f"{len(text)} characters, digest {digest_of(text)}"
