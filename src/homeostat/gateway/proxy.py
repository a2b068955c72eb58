"""The gateway as an ASGI application: who is calling, whether the gate is open, and then the call itself."""

from collections.abc import Container

from homeostat.core.errors import StoreUnavailable
from homeostat.core.records.call import Call, Outcome, call_of
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.asgi import AGENT, Asked, AtOnce, Inbound, Receive, Scope, Send, reply
from homeostat.gateway.exchange import Exchange
from homeostat.gateway.headers import RequestHeaders
from homeostat.gateway.office import Office
from homeostat.gateway.refusals import STRANGER, Refusal, refusal_of, render, turn_away
from homeostat.gateway.routes import PATH_CHARS_KEPT, Route


class Proxy:
    """Answers every path below the name of an upstream."""

    def __init__(self, office: Office) -> None:
        self._office = office

    def quick(self, request: AtOnce, *, hosts: Container[bytes | None] | None = None) -> bool:
        """Handle a call as far as that goes without waiting. False where it does not, and nothing was done yet.

        Where `hosts` are given, only who asks for one of them and from no page of a browser is handled here.
        """
        office = self._office
        route = office.routes.known.get(request.raw_path)
        if route is None or request.method != "POST":
            return False
        began = office.clock.monotonic()
        headers = _read(request)
        if hosts is not None and (headers.origin is not None or headers.host not in hosts):
            return False
        _, agent = office.doorman.recall(headers.digest, began)
        if agent is None or office.book.is_stale(began):
            return False
        headers = office.errands.recall(agent, headers)
        if headers is None:
            return False
        if headers.run_id is not None or headers.said_run_id is not None:
            return False  # whether a run may still spend is asked of the store, for every call
        now = office.clock.now_ms()
        chain = office.book.chain(agent, now)
        if chain.gate is not None:
            self._write_down(agent, route, headers, chain.gate, request)
            office.count(Outcome.REFUSED, chain.gate.code)
            lines, body = render(route.api, chain.gate, call_of(office.ids.scope()))
            request.answer(chain.gate.status, lines, body)
            return True
        exchange = Exchange(office, request, route, headers, agent, chain, began, now)
        exchange.begin(request)
        return True

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._not_http(scope, receive, send)
            return
        office = self._office
        began = office.clock.monotonic()
        route = office.routes.find(scope["method"], scope["path"])
        if route is None:
            await self._unknown_path(scope, send)
            return
        request = Asked(scope, receive, send)
        headers = RequestHeaders(request.headers, readable=(route.dialect or route.kept) is not None)
        try:
            agent: AgentKey | None = scope.get(AGENT)
            if agent is None:
                known, agent = office.doorman.recall(headers.digest, began)
                if not known:
                    agent = await office.doorman.ask(headers.digest)
                agent = agent or office.doorman.word(headers.agent_id)
            if agent is not None:
                headers = office.errands.recall(agent, headers) or await office.errands.ask(agent, headers)
            if office.book.is_stale(office.clock.monotonic()):  # last, and not as of when the call came
                await office.book.settle()
        except StoreUnavailable as error:
            await self._turn_away(request, route, refusal_of(error))
            return
        if agent is None:
            await self._turn_away(request, route, STRANGER)
            return
        now = office.clock.now_ms()
        chain = office.book.chain(agent, now)
        if chain.gate is not None:
            self._write_down(agent, route, headers, chain.gate, request)
            await self._turn_away(request, route, chain.gate)
            return
        exchange = Exchange(office, request, route, headers, agent, chain, began, now)
        await exchange.run()

    async def _turn_away(self, request: Inbound, route: Route, refusal: Refusal) -> None:
        office = self._office
        office.count(Outcome.REFUSED, refusal.code)
        await turn_away(request, route.api, refusal, call_of(office.ids.scope()))

    def _write_down(
        self, agent: AgentKey, route: Route, headers: RequestHeaders, refusal: Refusal, request: Inbound
    ) -> None:
        office = self._office

        def call() -> Call:
            return Call(
                call_id=call_of(office.ids.scope()),
                project=agent[0],
                agent_id=agent[1],
                run_id=headers.run_id,
                trace_id=headers.trace_id,
                upstream=route.outlet.name,
                api=route.api,
                path=route.path or request.path[:PATH_CHARS_KEPT],
                outcome=Outcome.REFUSED,
                status=refusal.status,
                code=refusal.code,
                policy_id=refusal.policy_id,
                started_at_ms=office.clock.now_ms(),
                retries=headers.retries,
            )

        office.clerk.refused((*agent, refusal.code, refusal.policy_id), call)

    async def _unknown_path(self, scope: Scope, send: Send) -> None:
        names = ", ".join(f"/{name}/v1" for name in self._office.routes.outlets)
        body = f"Nothing is here. The gateway answers below {names}.\n".encode()
        headers = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body))]
        await reply(scope, send, 404, headers, body)

    async def _not_http(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1011, "reason": "The gateway speaks HTTP only"})
            return
        raise AssertionError(f"the gateway answers requests, not {scope['type']}")


def _read(request: AtOnce) -> RequestHeaders:
    """What a request's headers say. A head that is said again is not read again."""
    head = request.head
    if head is None:
        return RequestHeaders(request.headers, readable=True)
    reading: RequestHeaders | None = head.reading
    if reading is None:
        reading = head.reading = RequestHeaders(request.headers, readable=True).write()
    return reading
