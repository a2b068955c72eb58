"""One call from the first byte to the last: admitted, bounded, forwarded, relayed, settled."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from homeostat.core.errors import (
    HomeostatError,
    ModelUnpriced,
    PayloadTooLarge,
    UpstreamFailed,
    UpstreamUnreachable,
)
from homeostat.core.ids import RunId
from homeostat.core.ports.upstream import UpstreamRequest, UpstreamResponse
from homeostat.core.records.budget import ZERO, BudgetKey, BudgetKind, Flight
from homeostat.core.records.call import Call, Outcome, call_of
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.accounting import NOTHING, UNREAD, Statement, reserved, state
from homeostat.gateway.asgi import Receive, Scope, Send
from homeostat.gateway.budgets import Reservation
from homeostat.gateway.dialects.shapes import Ask
from homeostat.gateway.headers import RequestHeaders
from homeostat.gateway.metering import Bound, Tariff, UnknownModel, bound, tariff
from homeostat.gateway.office import Office
from homeostat.gateway.policy import Chain, Taken
from homeostat.gateway.refusals import Refusal, refusal_of, render, stream_error
from homeostat.gateway.relay import Relay
from homeostat.gateway.routes import Route
from homeostat.gateway.sieve import sieve_for

USAGE_WANTED: Final = b'{"stream_options":{"include_usage":true},'
HUNG_UP: Final = 499
PROBE: Final = Bound(1, 0, 1, explicit=True, price=None)  # what an unread request needs: that anything is left at all


class HungUp(Exception):
    """The agent went away."""


class Exchange:
    """A call of a known agent. The warden looks after it, and the clerk writes it down should it last."""

    __slots__ = (
        "_ask",
        "_began",
        "_bound",
        "_chain",
        "_headers",
        "_hung_up",
        "_office",
        "_receive",
        "_relay",
        "_request_read",
        "_reservation",
        "_response",
        "_route",
        "_run_id",
        "_scope",
        "_send",
        "_taken",
        "_tariff",
        "_task",
        "_watching",
        "agent",
        "call_id",
        "started_ms",
    )

    def __init__(
        self,
        *,
        office: Office,
        scope: Scope,
        receive: Receive,
        send: Send,
        route: Route,
        headers: RequestHeaders,
        agent: AgentKey,
        chain: Chain,
    ) -> None:
        self._office = office
        self._scope = scope
        self._receive = receive
        self._send = send
        self._route = route
        self._headers = headers
        self._chain = chain
        self.agent = agent
        self.call_id = call_of(office.ids.scope())
        self.started_ms = office.clock.now_ms()
        self._began = office.clock.monotonic()
        self._run_id: RunId | None = headers.run_id or office.run_of(agent)
        self._ask: Ask | None = None
        self._bound: Bound | None = None
        self._tariff: Tariff | None = None
        self._taken: list[Taken] = []
        self._reservation: Reservation | None = None
        self._response: UpstreamResponse | None = None
        self._relay: Relay | None = None
        self._request_read = False
        self._hung_up = False
        self._task: asyncio.Task[object] | None = None
        self._watching: asyncio.Task[None] | None = None

    # --- the course of a call ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Handle the call. Whatever happens, it is counted, settled and written down once."""
        office = self._office
        office.in_flight.enter(self.agent)
        office.warden.enter(self)
        self._task = asyncio.current_task()
        outcome, status, code, statement = Outcome.ABANDONED, HUNG_UP, "hung_up", NOTHING
        try:
            refusal = await self._prepare()
            if refusal is None:
                office.clerk.opened(self.call_id, self)
                outcome, status, code = await self._forward()
                statement = self._state(outcome, status, code)
            else:
                outcome, status, code = Outcome.REFUSED, refusal.status, refusal.code
                await self._refuse(refusal)
        except (HungUp, asyncio.CancelledError) as gone:
            if self._response is not None or self._relay is not None or self._reservation is not None:
                statement = self._state(Outcome.ABANDONED, HUNG_UP, "hung_up")
            if isinstance(gone, asyncio.CancelledError) and not self._forgive():
                raise
        finally:
            self._end(outcome, status, code, statement)

    async def _prepare(self) -> Refusal | None:
        """Read the request, let every policy look at it and set aside what it may use."""
        try:
            if self._route.dialect is None:
                await self._reserve(PROBE)
                return None
            return await self._read(await self._body())
        except HomeostatError as error:
            self._give_back()
            return refusal_of(error)
        except BaseException:
            self._give_back()
            raise

    async def _read(self, body: bytes) -> Refusal | None:
        office, route, chain = self._office, self._route, self._chain
        assert route.dialect is not None
        self._ask = ask = route.dialect.ask(body)
        if chain.asks and (refusal := chain.ask(ask)) is not None:
            return refusal
        self._tariff = tariff(office.prices, route.outlet.provider, ask.model, office.manners.unknown_model)
        if self._tariff.price is None and office.manners.unknown_model is UnknownModel.REFUSE:
            raise ModelUnpriced(model=ask.model, where="here")
        if chain.rates:
            counted = any(rate.counts_tokens for rate in chain.rates)
            self._bound = bound(ask, self._tariff.price) if counted else None
            taken = chain.take(self._bound, office.clock.monotonic())
            if isinstance(taken, Refusal):
                return taken
            self._taken, cap = taken
            if cap is not None:
                ask.cap_output(cap)
                self._bound = bound(ask, self._tariff.price)
        await self._reserve(None)
        return None

    async def _reserve(self, needed: Bound | None) -> None:
        """Set aside what the call may use, where any budget counts it."""
        office, ask = self._office, self._ask
        keys = self._budget_keys()
        budgets = office.clerk.budgets
        if budgets.unbudgeted(keys):
            return
        if needed is None:
            assert ask is not None
            assert self._tariff is not None
            needed = self._bound or bound(ask, self._tariff.price)
        self._bound = needed
        self._reservation = await budgets.reserve(self.call_id, keys, needed, ask.model if ask is not None else "")
        if self._reservation is not None and ask is not None and ask.generates and not needed.explicit:
            cap = self._reservation.output_cap
            ask.cap_output(needed.tokens_out if cap is None else cap)

    def _budget_keys(self) -> tuple[BudgetKey, ...]:
        project, agent_id = self.agent
        mine: BudgetKey = (project, BudgetKind.AGENT, agent_id)
        return (mine,) if self._run_id is None else ((project, BudgetKind.RUN, self._run_id), mine)

    def _give_back(self) -> None:
        """The call is not made after all."""
        for taken in self._taken:
            taken.give_back()
        self._taken.clear()

    # --- reading the request -------------------------------------------------------------------------------

    async def _body(self) -> bytes:
        most = self._office.manners.body_bytes_max
        if self._headers.content_length > most:
            raise PayloadTooLarge(what="the request", size=self._headers.content_length, limit=most)
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise HungUp
        if not message.get("more_body", False):
            self._request_read = True
            return message.get("body", b"")
        pieces: list[bytes] = [message["body"]]
        size = len(pieces[0])
        async for piece in self._pieces():
            pieces.append(piece)
            size += len(piece)
            if size > most:
                raise PayloadTooLarge(what="the request", size=size, limit=most)
        return b"".join(pieces)

    async def _pieces(self) -> AsyncIterator[bytes]:
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise HungUp
            more = message.get("more_body", False)
            self._request_read = not more
            yield message.get("body", b"")
            if not more:
                return

    # --- to the upstream and back --------------------------------------------------------------------------

    async def _forward(self) -> tuple[Outcome, int, str]:
        office = self._office
        try:
            hides_usage = self._ask_for_usage()
            self._response = response = await self._route.outlet.upstream.send(self._request())
            ask = self._ask
            sieve = None
            if ask is not None and self._chain.tool_filters:
                sieve = sieve_for(ask.api, self._chain.allows_tool)
            self._relay = relay = Relay(
                send=self._send,
                response=response,
                clock=office.clock,
                call_id=self.call_id,
                dialect=self._route.dialect,
                ask=ask,
                hides_usage=hides_usage,
                sieve=sieve,
            )
            await relay.run()
        except UpstreamFailed as error:
            if self._hung_up:
                raise HungUp from error
            await self._break_off(error)
            return Outcome.FAILED, error.http_status, error.code
        finally:
            if self._response is not None:
                self._response.close()
        return Outcome.ANSWERED, response.status, ""

    def _ask_for_usage(self) -> bool:
        """Have a stream report what it used; says whether the agent must not see that."""
        ask = self._ask
        if ask is None or not ask.streamed or ask.wants_usage or not self._route.outlet.asks_usage:
            return False
        if b'"stream_options"' in ask.body:
            ask.edit({"stream_options": {"include_usage": True}})
        else:
            ask.body = USAGE_WANTED + ask.body.lstrip()[1:]
        return True

    def _request(self) -> UpstreamRequest:
        scope = self._scope
        target: bytes = scope["raw_path"][len(self._route.outlet.name) + 1 :]
        if query := scope["query_string"]:
            target += b"?" + query
        headers = self._headers.forwarded
        if self._chain.headers:
            headers = [*headers, *self._chain.headers]
        body: bytes | AsyncIterator[bytes]
        if self._ask is not None:
            body = self._ask.body
        elif self._headers.content_length or scope["method"] not in ("GET", "HEAD", "DELETE", "OPTIONS"):
            body = self._pieces()
            if self._headers.content_length:
                headers = [*headers, (b"content-length", b"%d" % self._headers.content_length)]
        else:
            body = b""
            self._request_read = True
        return UpstreamRequest(scope["method"].encode("latin-1"), target, headers, body)

    async def _break_off(self, error: UpstreamFailed) -> None:
        """Tell the agent, as far as it can still be told; a stream that is in the middle of an event is just cut."""
        relay = self._relay
        refusal = refusal_of(error)
        if relay is None or not relay.started:
            await self._refuse(refusal)
        elif relay.between_events:
            await relay.end(stream_error(self._route.api, refusal, self.call_id))

    async def _refuse(self, refusal: Refusal) -> None:
        headers, body = render(self._route.api, refusal, self.call_id)
        await self._send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await self._send({"type": "http.response.body", "body": body})

    # --- while it is open ----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        manners, relay = self._office.manners, self._relay
        if self._watching is None and self._request_read and now - self._began >= manners.patience_seconds:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        if relay is not None:
            if relay.streams:
                relay.ping(now, manners.ping_seconds)
            if relay.sending_since is not None and now - relay.sending_since >= manners.client_stall_seconds:
                self._abandon()

    async def _watch(self) -> None:
        """Notice when the agent hangs up."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            self._abandon()

    def _abandon(self) -> None:
        if not self._hung_up and self._task is not None:
            self._hung_up = True
            self._task.cancel()

    def _forgive(self) -> bool:
        """Take back a cancellation that was ours; one that came from outside goes on."""
        if not self._hung_up or self._task is None:
            return False
        return self._task.uncancel() == 0

    # --- the end -------------------------------------------------------------------------------------------

    def _state(self, outcome: Outcome, status: int, code: str) -> Statement:
        ask, dialect = self._ask, self._route.dialect
        if code == UpstreamUnreachable.code or (outcome is Outcome.ANSWERED and status >= 400):
            return NOTHING
        if ask is None or dialect is None or self._tariff is None:
            return NOTHING if self._scope["method"] == "GET" else UNREAD
        return state(ask, dialect, self._relay, self._tariff, bound=self._bound, reservation=self._reservation)

    def _end(self, outcome: Outcome, status: int, code: str, statement: Statement) -> None:
        office = self._office
        office.warden.leave(self)
        office.in_flight.leave(self.agent)
        if self._watching is not None:
            self._watching.cancel()
        if self._response is not None:
            self._response.close()
        for taken in self._taken:
            taken.settle(statement.usage.tokens)
        if self._reservation is not None:
            office.clerk.budgets.settle(self._reservation, statement.amount)
        call = self._call(outcome, status, code, statement)
        office.clerk.closed(call)
        office.count(outcome.value, code)

    def _call(self, outcome: Outcome, status: int, code: str, statement: Statement) -> Call:
        ask, relay, headers = self._ask, self._relay, self._headers
        first_token_at = relay.first_token_at if relay is not None else None
        return Call(
            call_id=self.call_id,
            project=self.agent[0],
            agent_id=self.agent[1],
            run_id=self._run_id,
            trace_id=headers.trace_id,
            upstream=self._route.outlet.name,
            api=self._route.api,
            path=self._scope["path"][:200],
            model=ask.model if ask is not None else "",
            streamed=ask.streamed if ask is not None else False,
            outcome=outcome,
            status=status,
            code=code,
            policy_id="",
            started_at_ms=self.started_ms,
            latency_ms=(self._office.clock.monotonic() - self._began) * 1000,
            first_token_ms=None if first_token_at is None else (first_token_at - self._began) * 1000,
            usage=statement.usage,
            metered=statement.metered,
            cost_micros=statement.cost_micros,
            priced=statement.priced,
            retries=headers.retries,
            prompt_hash=ask.prompt_hash if ask is not None else "",
            tools_offered=ask.tools if ask is not None else (),
            tool_calls=statement.tools,
        )

    def flight(self) -> Flight:
        if self._reservation is not None and self._bound is not None and self._tariff is not None:
            statement = reserved(self._bound, self._reservation, self._tariff)
        else:
            statement = UNREAD
        call = self._call(Outcome.LOST, 0, "gateway_died", statement)
        if self._reservation is None:
            return Flight(call, ZERO, ())
        return Flight(call, self._reservation.amount, self._reservation.keys)
