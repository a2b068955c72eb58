"""One call from the first byte to the last: admitted, bounded, forwarded, relayed, settled."""

import asyncio
from typing import Final

from homeostat.core.clock import Millis
from homeostat.core.errors import (
    HomeostatError,
    ModelUnpriced,
    UpstreamFailed,
    UpstreamUnreachable,
)
from homeostat.core.limits import NAME_CHARS_MAX, TOOLS_LOGGED_MAX
from homeostat.core.ports.upstream import UpstreamRequest, UpstreamResponse
from homeostat.core.records.budget import ZERO, BudgetKey, BudgetKind, Flight
from homeostat.core.records.call import Call, Outcome, call_of
from homeostat.core.records.price import Price, Rate
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.accounting import NOTHING, UNREAD, Statement, reserved, state_answer, state_relayed
from homeostat.gateway.asgi import Receive, Scope, Send, reply
from homeostat.gateway.budgets import Reservation
from homeostat.gateway.dialects.shapes import Ask
from homeostat.gateway.headers import AnswerHeaders, RequestHeaders
from homeostat.gateway.metering import Bound, Tariff, UnknownModel, bound, tariff
from homeostat.gateway.office import Office
from homeostat.gateway.policy import Chain, alert
from homeostat.gateway.rates import Taken
from homeostat.gateway.refusals import Refusal, refusal_of, stream_error, turn_away
from homeostat.gateway.relay import Relay
from homeostat.gateway.request_body import HungUp, RequestBody
from homeostat.gateway.routes import Route
from homeostat.gateway.sieve import sieve_for

USAGE_WANTED: Final = b'{"stream_options":{"include_usage":true},'
BODILESS: Final = frozenset({"GET", "HEAD", "DELETE", "OPTIONS"})
HUNG_UP: Final = 499
PATH_CHARS_KEPT: Final = 200
PROBE: Final = Bound(1, 0, 1, explicit=True, price=None)  # what an unread request needs: that anything is left at all
GLANCE: Final = Bound(1, 0, 1, explicit=True, price=Price("", Rate(0, 0, 0, 0)))  # one without a body costs nothing


class Exchange:
    """A call of a known agent. The warden looks after it, and the clerk writes it down should it last.

    What has no value yet stands in the class: a call is made for every request, and most never use most of it.
    """

    _ask: Ask | None = None
    _answer: bytes | None = None
    _bound: Bound | None = None
    _tariff: Tariff | None = None
    _taken: list[Taken] | None = None
    _reservation: Reservation | None = None
    _response: UpstreamResponse | None = None
    _relay: Relay | None = None
    _sent = False
    _sending_since: float | None = None
    _hung_up = False
    _task: asyncio.Task[object] | None = None
    _watching: asyncio.Task[None] | None = None
    _outcome = Outcome.ABANDONED
    _status = HUNG_UP
    _code = "hung_up"
    _policy_id = ""
    _ended = 0.0

    def __init__(
        self,
        office: Office,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        route: Route,
        headers: RequestHeaders,
        agent: AgentKey,
        chain: Chain,
        began: float,
        started_ms: Millis,
    ) -> None:
        self._office = office
        self._scope = scope
        self._receive = receive
        self._body = RequestBody(receive, office.manners.body_bytes_max)
        self._send = send
        self._route = route
        self._headers = headers
        self._chain = chain
        self.began = began
        self._started_ms = started_ms
        self._run_id = headers.run_id
        self.agent = agent
        self.call_id = call_of(office.ids.scope())

    # --- the course of a call ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Handle the call. Whatever happens, it is counted, settled and written down once."""
        office = self._office
        version = office.book.version
        office.in_flight.enter(self.agent, version)
        self._task = asyncio.current_task()
        try:
            try:
                refusal = await self._prepare()
                if refusal is None:
                    office.clerk.opened(self.call_id, self)
            finally:
                office.in_flight.entered(version)
            if refusal is None:
                await self._forward()
            else:
                self._outcome, self._status, self._code = Outcome.REFUSED, refusal.status, refusal.code
                self._policy_id = refusal.policy_id
                await turn_away(self._scope, self._send, self._route.api, refusal, self.call_id)
        except HungUp:
            pass
        except asyncio.CancelledError:
            if not self._forgive():
                raise
        finally:
            self._ended = office.clock.monotonic()
            office.in_flight.leave(self.agent)
            if self._watching is not None:
                self._watching.cancel()
            if self._sent and self._ask is not None:
                office.clerk.announcer.hearing.keep(self.call_id, self._ask)
            office.clerk.ended(self.call_id, self)
            office.count(self._outcome, self._code)

    async def _prepare(self) -> Refusal | None:
        """Read the request, let every policy look at it and set aside what it may use."""
        office = self._office
        try:
            body = b""
            if self._route.dialect is not None:
                at_hand = self._body.at_hand(self._scope)
                body = await self._body.whole(self._headers.content_length) if at_hand is None else at_hand
            if self._run_id is not None or self._headers.said_run_id is not None:
                await office.admit(self._run_id, self._headers.said_run_id)
            if self._route.dialect is None:
                if self._chain.rates and (refusal := await self._draw()) is not None:
                    return refusal
                await self._reserve(GLANCE if self._scope["method"] in BODILESS else PROBE)
                return None
            return await self._read(body)
        except HomeostatError as error:
            self._give_back()
            office.tell(error, self.agent)
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
        unknown = office.manners.unknown_model
        self._tariff = priced = tariff(office.prices, route.outlet.provider, ask.model, unknown)
        if priced.price is None and unknown is UnknownModel.REFUSE:
            raise ModelUnpriced(model=ask.model, where="here")
        if chain.rates:
            self._bound = bound(ask, priced.price) if chain.counts_tokens else None
            self._taken = chain.take(self._bound, self.began)
            if self._taken is None and (refusal := await self._draw()) is not None:
                return refusal
        budgets, keys = office.clerk.budgets, self._budget_keys()
        if not budgets.unbudgeted(keys):
            needed = self._bound or bound(ask, priced.price)
            if needed.explicit:
                self._bound = needed
                self._reservation = budgets.reserve_at_hand(self.call_id, keys, needed, ask.model)
            if self._reservation is None:
                await self._reserve(needed)
        if self._taken and self._bound is not None and ask.generates and ask.output_cap is None:
            ask.cap_output(self._bound.tokens_out)  # or more would be used than was counted
        return None

    async def _draw(self) -> Refusal | None:
        """Ask the store for room, settling first what is over: it may have used less than it took."""
        self._office.clerk.catch_up()
        drawn = await self._chain.draw(self._bound)
        if isinstance(drawn, Refusal):
            return drawn
        self._taken, out = drawn
        if self._ask is not None and self._bound is not None and out < self._bound.tokens_out:
            self._ask.cap_output(out)
            self._bound = bound(self._ask, self._bound.price)
        return None

    async def _reserve(self, needed: Bound) -> None:
        """Set aside what the call may use, where any budget counts it."""
        ask = self._ask
        self._bound = needed
        self._reservation = reservation = await self._office.clerk.budgets.reserve(
            self.call_id, self._budget_keys(), needed, ask.model if ask is not None else ""
        )
        if reservation is not None and ask is not None and not needed.explicit:
            cap = reservation.output_cap
            ask.cap_output(needed.tokens_out if cap is None else cap)

    def _budget_keys(self) -> tuple[BudgetKey, ...]:
        project, agent_id = self.agent
        mine: BudgetKey = (project, BudgetKind.AGENT, agent_id)
        return (mine,) if self._run_id is None else ((project, BudgetKind.RUN, self._run_id), mine)

    def _give_back(self) -> None:
        """The call is not made after all."""
        for taken in self._taken or ():
            taken.give_back()
        self._taken = None

    # --- to the upstream and back --------------------------------------------------------------------------

    async def _forward(self) -> None:
        response: UpstreamResponse | None = None
        try:
            hides_usage = self._ask_for_usage()
            request = self._request()
            self._sent = True
            self._response = response = await self._route.outlet.upstream.send(request)
            headers = AnswerHeaders(response.headers)
            headers.returned.append((b"x-homeostat-call-id", self.call_id.encode()))
            streams = headers.content_type.startswith(b"text/event-stream")
            if response.complete and not streams and not self._chain.tool_filters:
                await self._pass_whole(response, headers)
            else:
                await self._pass_on(response, headers, hides_usage=hides_usage)
            self._outcome, self._status, self._code = Outcome.ANSWERED, response.status, ""
        except UpstreamFailed as error:
            if self._hung_up:
                raise HungUp from error
            self._outcome, self._status, self._code = Outcome.FAILED, error.http_status, error.code
            await self._break_off(error)
        finally:
            if response is not None:
                response.close()

    async def _pass_whole(self, response: UpstreamResponse, headers: AnswerHeaders) -> None:
        """The whole answer has come with its head: one step, and it is read when there is time."""
        answer = await response.read()
        self._sending_since = self._office.clock.monotonic()
        await reply(self._scope, self._send, response.status, headers.returned, answer)
        if not headers.encoded:
            self._answer = answer

    async def _pass_on(self, response: UpstreamResponse, headers: AnswerHeaders, *, hides_usage: bool) -> None:
        ask, dialect, chain = self._ask, self._route.dialect, self._chain
        self._relay = relay = Relay(send=self._send, response=response, headers=headers, clock=self._office.clock)
        if ask is not None and dialect is not None and response.status < 400 and not headers.encoded:
            sieve = sieve_for(ask.api, chain.allows_tool) if chain.tool_filters else None
            relay.look(dialect, ask, sieve, hides_usage=hides_usage)
        await relay.run()

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
        method: str = scope["method"]
        target: bytes = scope["raw_path"][self._route.outlet.prefix_length :]
        if query := scope["query_string"]:
            target += b"?" + query
        headers = self._headers.forwarded
        headers += self._chain.headers
        if self._ask is not None:
            return UpstreamRequest(method.encode(), target, headers, self._ask.body)
        length = self._headers.content_length
        if not length and method in BODILESS:
            self._body.read = True
            return UpstreamRequest(method.encode(), target, headers)
        if length:
            headers.append((b"content-length", b"%d" % length))
        return UpstreamRequest(method.encode(), target, headers, self._body.pieces())

    async def _break_off(self, error: UpstreamFailed) -> None:
        """Tell the agent, as far as it can still be told; a stream that is in the middle of an event is just cut."""
        relay = self._relay
        refusal = refusal_of(error)
        if relay is None or not relay.started:
            await turn_away(self._scope, self._send, self._route.api, refusal, self.call_id)
        elif relay.between_events:
            await relay.end(stream_error(self._route.api, refusal, self.call_id))

    # --- while it is open ----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        manners, relay = self._office.manners, self._relay
        if self._watching is None and self._body.read and now - self.began >= manners.patience_seconds:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        since = self._sending_since
        if relay is not None:
            relay.ping(now, manners.ping_seconds)
            since = relay.sending_since
        if since is not None and now - since >= manners.client_stall_seconds:
            self._code = "client_stalled"
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
        return self._hung_up and self._task is not None and self._task.uncancel() == 0

    # --- the books -----------------------------------------------------------------------------------------

    def settle(self) -> Call:
        """Settle a call that is over and tell what there is to write of it."""
        statement = self._state()
        for taken in self._taken or ():
            taken.settle(statement.usage.tokens)
        if self._reservation is not None:
            self._office.clerk.budgets.settle(self._reservation, statement.amount)
        call = self._call(self._outcome, self._status, self._code, statement)
        for policy in self._chain.alerts:
            if policy.max_tokens is None or call.usage.tokens > policy.max_tokens:
                self._office.clerk.announce(alert(policy, call))
        return call

    def _state(self) -> Statement:
        ask, dialect, priced = self._ask, self._route.dialect, self._tariff
        if not self._sent or self._code == UpstreamUnreachable.code:
            return NOTHING
        if self._outcome is Outcome.ANSWERED and self._status >= 400:
            return NOTHING
        if ask is None or dialect is None or priced is None:
            return NOTHING if self._scope["method"] in BODILESS else UNREAD
        if self._answer is not None:
            return state_answer(ask, dialect, self._answer, priced)
        return state_relayed(ask, dialect, self._relay, priced, self._reserved())

    def _reserved(self) -> Statement | None:
        if self._reservation is None or self._bound is None or self._tariff is None:
            return None
        return reserved(self._bound, self._reservation, self._tariff)

    def _call(self, outcome: Outcome, status: int, code: str, statement: Statement) -> Call:
        ask, headers, began = self._ask, self._headers, self.began
        first = self._relay.first_token_at if self._relay is not None else self._ended if self._answer else None
        return Call(
            call_id=self.call_id,
            project=self.agent[0],
            agent_id=self.agent[1],
            run_id=self._run_id,
            trace_id=headers.trace_id,
            upstream=self._route.outlet.name,
            api=self._route.api,
            path=self._scope["path"][:PATH_CHARS_KEPT],
            model=ask.model[:NAME_CHARS_MAX] if ask is not None else "",
            streamed=ask.streamed if ask is not None else False,
            outcome=outcome,
            status=status,
            code=code,
            policy_id=self._policy_id,
            started_at_ms=self._started_ms,
            latency_ms=round((self._ended - began) * 1000, 3),
            first_token_ms=None if first is None else round((first - began) * 1000, 3),
            usage=statement.usage,
            metered=statement.metered,
            cost_micros=statement.cost_micros,
            priced=statement.priced,
            retries=headers.retries,
            prompt_hash=ask.prompt_hash if ask is not None else "",
            tools_offered=self._offered(),
            tool_calls=statement.tools,
        )

    def _offered(self) -> tuple[str, ...]:
        tools = self._ask.tools if self._ask is not None else ()
        return tuple(name[:NAME_CHARS_MAX] for name in tools[:TOOLS_LOGGED_MAX]) if tools else ()

    def flight(self) -> Flight:
        """What this call is settled at should nobody live to settle it."""
        self._ended = self._office.clock.monotonic()
        call = self._call(Outcome.LOST, 0, "gateway_died", self._reserved() or UNREAD)
        if self._reservation is None:
            return Flight(call, ZERO, ())
        return Flight(call, self._reservation.amount, self._reservation.keys)
