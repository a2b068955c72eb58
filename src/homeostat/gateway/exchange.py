"""One call from the first byte to the last: admitted, bounded, forwarded, relayed, settled."""

import asyncio
import logging
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, Final, cast

from homeostat.core.errors import HomeostatError, StoreUnavailable
from homeostat.core.gateway_errors import UpstreamFailed
from homeostat.core.ports.upstream import Pending, UpstreamRequest, UpstreamResponse
from homeostat.core.records.call import ANSWERED, Outcome
from homeostat.gateway.admission import BODILESS
from homeostat.gateway.asgi import AtOnce
from homeostat.gateway.booking import Booking
from homeostat.gateway.headers import AnswerHeaders
from homeostat.gateway.passage import Passage
from homeostat.gateway.refusals import Refusal, refusal_of, render, stream_error, turn_away
from homeostat.gateway.relay import Relay
from homeostat.gateway.request_body import HungUp, RequestBody, take_at_hand
from homeostat.gateway.sieve import sieve_for

log = logging.getLogger(__name__)

TELLING_SECONDS_MAX: Final = 1.0  # until a refusal that holds a run is told to its driver
USAGE_WANTED: Final = b'{"stream_options":{"include_usage":true},'


class Exchange(Booking):
    """A call of a known agent. The warden looks after it, and the clerk writes it down should it last.

    `run` handles it in a task of its caller's. `begin` needs none as long as nothing has to be waited for but the
    upstream's answer, which then is passed on where it is read; else a task goes on from where that was found out.
    """

    __slots__ = ()

    # --- the course of a call ------------------------------------------------------------------------------

    async def run(self) -> None:
        """Handle the call. Whatever happens, it is counted, settled and written down once."""
        self._office.in_flight.enter(self.agent)
        self._take_time()
        await self._see_through(self._course(self._prepare()))

    def begin(self, request: AtOnce) -> None:
        """As `run`, without a task as long as none is needed."""
        self._office.in_flight.enter(self.agent)
        try:
            refusal, waits = self._prepare_at_hand(request)
            if waits:
                self._take_time()
                request.perform(self._see_through(self._course(self._set_aside_late())))
            elif refusal is not None and refusal.holds_a_run:
                request.perform(self._see_through(self._turn_away(refusal)))
            elif refusal is not None:
                self._refuse(refusal)
                headers, body = render(self._route.api, refusal, self.call_id)
                request.answer(refusal.status, headers, body)
                self._end()
            else:
                self._open()
                self._depart(request)
        except BaseException:
            self._give_back()
            self._end()
            raise

    def _prepare_at_hand(self, request: AtOnce) -> tuple[Refusal | None, bool]:
        """As `_prepare`, of what is at hand; also says whether there is more to wait for."""
        try:
            refusal = self._look(take_at_hand(request, self._office.manners.body_bytes_max))
            return refusal, refusal is None and not self._set_aside_at_hand()
        except HomeostatError as error:
            return self._refused(error), False

    async def _set_aside_late(self) -> Refusal | None:
        try:
            return await self._set_aside()
        except HomeostatError as error:
            return self._refused(error)
        except BaseException:
            self._give_back()
            raise

    async def _course(self, preparing: Coroutine[Any, Any, Refusal | None]) -> None:
        refusal = await preparing
        if refusal is None:
            self._open()
            await self._forward(self._upstream_request())
        else:
            await self._turn_away(refusal)

    async def _turn_away(self, refusal: Refusal) -> None:
        """Say no. Where that holds a run, whoever drives it has to know before the agent does, who may fail for it."""
        self._refuse(refusal)
        if refusal.holds_a_run:
            self._end()
            with suppress(StoreUnavailable, TimeoutError):
                async with asyncio.timeout(TELLING_SECONDS_MAX):
                    await self._office.clerk.flush()
        await turn_away(self._request, self._route.api, refusal, self.call_id)

    async def _see_through(self, course: Coroutine[Any, Any, None]) -> None:
        """Let a call take its course, and write it down whatever becomes of it."""
        self._task = asyncio.current_task()
        try:
            await course
        except HungUp:
            pass
        except asyncio.CancelledError:
            if not self._forgive():
                raise
        finally:
            self._end()

    def _take_time(self) -> None:
        """Whoever drains an agent has to know by which policies a call came that is not in the books yet."""
        self._version = version = self._office.book.version
        self._office.in_flight.entering(version)

    def _open(self) -> None:
        """It will be sent: from now on the books have it."""
        self._office.clerk.opened(self.call_id, self)
        if self._version is not None:
            self._entered(self._version)

    def _refuse(self, refusal: Refusal) -> None:
        self._outcome, self._status, self._code = Outcome.REFUSED, refusal.status, refusal.code
        self._policy_id, self._refused_by = refusal.policy_id, refusal.bound

    def _entered(self, version: int) -> None:
        self._office.in_flight.entered(version)
        self._version = None

    def _end(self) -> None:
        if self._over:
            return
        self._over = True
        office = self._office
        self._ended = office.clock.monotonic()
        if self._version is not None:
            self._entered(self._version)
        office.in_flight.leave(self.agent)
        if self._watching is not None:
            self._watching.cancel()
            self._watching = None  # how it ended leads back here, and only the collector would find that
        if self._sent and self._ask is not None and self._ask.tool_speaks:
            office.clerk.announcer.hearing.keep(self.call_id, self._ask)
        office.clerk.ended(self.call_id, self)
        office.count(self._outcome, self._code)

    # --- without a task ------------------------------------------------------------------------------------

    def _depart(self, request: AtOnce) -> None:
        """Send it where a connection is at hand. Whatever happens to the agent or the answer calls back."""
        asked, quick = self._upstream_request(), self._route.quick
        self._sent = True
        pending = quick.send_at_once(asked, self._arrived) if quick is not None else None
        if pending is None:
            request.perform(self._see_through(self._forward(asked)))
            return
        self._response = self._pending = pending
        self._waiting = request
        request.on_lost = self._lost

    def _lost(self) -> None:
        """The agent hung up, and nobody is left to be told."""
        assert self._response is not None
        self._hung_up = True
        self._response.close()
        self._end()

    def _arrived(self) -> None:
        """Pass on an answer that is here as a whole; for any other a task is made."""
        pending, request = self._pending, self._waiting
        if not pending.status and pending.error is None:
            return
        pending.arrived = request.on_lost = None
        quick = self._route.quick
        assert quick is not None
        try:
            self._response = response = quick.received(pending)
            if pending.written and response is pending and not self._chain.tool_filters:
                self._pass_as_written(request, pending)
                self._end()
                return
            headers = self._answer_headers(response)
            judged = response is not pending or self._chain.tool_filters
            if headers.streams and not judged:
                self._pass_along(request, pending, headers)
                return
            if judged or not pending.complete:
                request.perform(self._see_through(self._receive_answer(response)))
                return
            answer = pending.take()
            request.answer(pending.status, headers.returned, answer)
            self._answered(pending, answer, headers)
        except UpstreamFailed as error:
            self._fail(error)
            refusal = refusal_of(error)
            request.answer(refusal.status, *render(self._route.api, refusal, self.call_id))
        except Exception:
            log.exception("an answer could not be passed on (%s)", self.call_id)
            request.give_up()
            pending.close()
        self._end()

    def _pass_as_written(self, request: AtOnce, pending: Pending) -> None:
        """The whole answer with its head as it came: nothing in it has to be looked at before the agent has it."""
        answer = pending.take()
        lines = (pending.written, b"x-homeostat-call-id: ", self.call_id.encode(), b"\r\n")
        request.answer_as_written(pending.status, lines, answer)
        self._outcome, self._status, self._code, self._answer = ANSWERED, pending.status, "", answer

    def _pass_along(self, request: AtOnce, pending: Pending, headers: AnswerHeaders) -> None:
        """Pass a stream on as it comes. From here on the upstream and the agent say when there is something to do."""
        self._relay = passage = Passage(request=request, pending=pending, headers=headers, clock=self._office.clock)
        self._let_look(passage, headers, pending.status)
        passage.begin()
        pending.arrived = request.on_drained = self._more_arrived
        request.on_lost = self._lost
        self._more_arrived()

    def _more_arrived(self) -> None:
        """Something more of a stream has come, or the agent has taken what it was sent."""
        passage, request, pending = cast("Passage", self._relay), self._waiting, self._pending
        try:
            if not passage.pass_on():
                return
            self._outcome, self._status, self._code = ANSWERED, pending.status, ""
        except UpstreamFailed as error:
            self._fail(error)
            if passage.between_events:
                request.push(stream_error(self._route.api, refusal_of(error), self.call_id), more=False)
            else:
                request.give_up()
        except Exception:
            log.exception("a stream could not be passed on (%s)", self.call_id)
            request.give_up()
        request.on_lost = request.on_drained = None
        pending.close()
        self._end()

    # --- to the upstream and back --------------------------------------------------------------------------

    async def _forward(self, request: UpstreamRequest) -> None:
        """Send it and pass the answer on."""
        self._sent = True
        try:
            response = await self._route.outlet.upstream.send(request)
        except UpstreamFailed as error:
            await self._break_off(error)
            return
        await self._receive_answer(response)

    async def _receive_answer(self, response: UpstreamResponse) -> None:
        self._response = response
        try:
            headers = self._answer_headers(response)
            if response.complete and not self._has_to_be_relayed(headers):
                await self._pass_whole(response, headers)
            else:
                await self._pass_on(response, headers)
                self._answered(response, None, headers)
        except UpstreamFailed as error:
            await self._break_off(error)
        finally:
            response.close()

    def _answer_headers(self, response: UpstreamResponse) -> AnswerHeaders:
        headers = AnswerHeaders(response.headers)
        headers.returned.append((b"x-homeostat-call-id", self.call_id.encode()))
        return headers

    def _has_to_be_relayed(self, headers: AnswerHeaders) -> bool:
        """Whether an answer cannot be passed on before it is looked at."""
        return headers.streams or bool(self._chain.tool_filters)

    def _answered(self, response: UpstreamResponse, answer: bytes | None, headers: AnswerHeaders) -> None:
        self._outcome, self._status, self._code = ANSWERED, response.status, ""
        if not headers.encoded:
            self._answer = answer

    def _fail(self, error: UpstreamFailed) -> None:
        self._outcome, self._status, self._code = Outcome.FAILED, error.http_status, error.code

    async def _pass_whole(self, response: UpstreamResponse, headers: AnswerHeaders) -> None:
        """The whole answer has come with its head: one step, and it is read when there is time."""
        answer = await response.read()
        self._sending_since = self._office.clock.monotonic()
        await self._request.reply(response.status, headers.returned, answer)
        self._answered(response, answer, headers)

    async def _pass_on(self, response: UpstreamResponse, headers: AnswerHeaders) -> None:
        send, clock = self._request.send, self._office.clock
        self._relay = relay = Relay(send=send, response=response, headers=headers, clock=clock)
        self._let_look(relay, headers, response.status)
        await relay.run()

    def _let_look(self, relay: Relay, headers: AnswerHeaders, status: int) -> None:
        """Have an answer read on its way, where it can be."""
        dialect, chain = self._route.dialect or self._route.kept, self._chain
        if dialect is None or status >= 400 or (self._ask is None and not chain.tool_filters):
            return
        sieve = sieve_for(dialect.api, chain.allows_tool, self._route.outlet.name) if chain.tool_filters else None
        if not headers.encoded:
            relay.look(dialect, sieve, hides_usage=self._hides_usage)
        elif sieve is not None:  # though it was asked for one that can be read
            sieve.refuse_unread("compressed and cannot be checked")

    def _ask_for_usage(self) -> bool:
        """Have a stream report what it used; says whether the agent must not see that."""
        ask = self._ask
        if ask is None or not ask.streamed or ask.wants_usage or not self._route.outlet.asks_usage:
            return False
        if b'"stream_options"' in ask.body or b"\\u00" in ask.body:  # it may stand there under a name with escapes
            ask.edit({"stream_options": {"include_usage": True}})
        else:
            ask.body = USAGE_WANTED + ask.body.lstrip()[1:]
        return True

    def _upstream_request(self) -> UpstreamRequest:
        """What the upstream is asked. Made once: it adds to what the agent said."""
        self._hides_usage = self._ask_for_usage()
        request, route = self._request, self._route
        method = request.method
        target = route.target or route.outlet.below(request.raw_path)
        if query := request.query:
            target += b"?" + query
        headers, written = self._headers.forwarded, self._headers.written
        if self._chain.headers:
            headers, written = [*headers, *self._chain.headers], b""
        if self._ask is not None:
            return UpstreamRequest(method.encode(), target, headers, self._ask.body, written)
        length = self._headers.content_length
        if not length and method in BODILESS:
            return UpstreamRequest(method.encode(), target, headers)
        if length:
            headers = [*headers, (b"content-length", b"%d" % length)]
        self._body = body = RequestBody(request, self._office.manners.body_bytes_max)
        return UpstreamRequest(method.encode(), target, headers, body.pieces())

    async def _break_off(self, error: UpstreamFailed) -> None:
        """Tell the agent, as far as it can still be told; a stream that is in the middle of an event is just cut."""
        if self._hung_up:
            raise HungUp from error
        self._fail(error)
        relay = self._relay
        refusal = refusal_of(error)
        if relay is None or not relay.started:
            await turn_away(self._request, self._route.api, refusal, self.call_id)
        elif relay.between_events:
            await relay.end(stream_error(self._route.api, refusal, self.call_id))

    # --- while it is open ----------------------------------------------------------------------------------

    def tick(self, now: float) -> None:
        manners, relay = self._office.manners, self._relay
        if (
            self._task is not None
            and self._watching is None
            and (self._body is None or self._body.read)
            and now - self.began >= manners.patience_seconds
        ):
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        since = self._sending_since
        if relay is not None:
            relay.ping(now, manners.ping_seconds)
            since = relay.sending_since
        if since is not None and now - since >= manners.client_stall_seconds:
            self._code = "client_stalled"
            self.abandon()

    async def _watch(self) -> None:
        """Notice when the agent hangs up."""
        message = await self._request.receive()
        if message["type"] == "http.disconnect":
            self.abandon()

    def abandon(self) -> None:
        """Nobody waits for the answer any more, or nobody will be here to pass it on."""
        if self._hung_up:
            return
        if self._task is not None:
            self._hung_up = True
            self._task.cancel()
        elif self._response is not None:
            self._waiting.on_lost = self._waiting.on_drained = None
            self._lost()
            self._waiting.give_up()

    def _forgive(self) -> bool:
        """Take back a cancellation that was ours; one that came from outside goes on."""
        return self._hung_up and self._task is not None and self._task.uncancel() == 0
