"""The gateway's one writer: draws, settlements, open calls and finished ones share a transaction."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from msgspec import structs

from homeostat.core.clock import Clock, Millis
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import Ids, ProjectId, scope_floor
from homeostat.core.limits import (
    BUDGET_FLOAT_SECONDS,
    CALL_RETENTION_SECONDS,
    CALLS_BUFFERED_MAX,
    FLIGHT_SECONDS,
    GATEWAY_LEASE_SECONDS,
    LEASE_BEATS,
    POSTING_CALLS_MAX,
    POSTING_DRAWS_MAX,
    POSTING_SECONDS,
    RATE_KEPT_SECONDS,
    REFUSAL_WINDOW_MS,
    SWEEP_ROWS_MAX,
)
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.budget import (
    ZERO,
    BudgetKey,
    BudgetKind,
    BudgetLimit,
    Draw,
    Posting,
    Spend,
    gateway_of,
)
from homeostat.core.records.call import Call, CallId, call_of
from homeostat.core.records.event import Event
from homeostat.core.records.rate import NO_LOAD, RateDraw, RateDrawn
from homeostat.core.records.turn import AgentKey
from homeostat.gateway.airspace import Airborne, Airspace
from homeostat.gateway.announcing import Announcer
from homeostat.gateway.budgets import Answered, Budgets
from homeostat.gateway.rates import Rates

log = logging.getLogger(__name__)


RefusalKey = tuple[str, str, str, str]
NO_BUDGET: BudgetKey = (ProjectId(""), BudgetKind.AGENT, "")  # a draw on it is only waited for


class Clerk:
    """Collects what is to be written for a moment, and less than that when somebody waits."""

    def __init__(
        self,
        *,
        store: GatewayStore,
        clock: Clock,
        ids: Ids,
        seen_version: Callable[[], int],
        announcer: Announcer,
        retention_seconds: float = CALL_RETENTION_SECONDS,
        lease_seconds: float = GATEWAY_LEASE_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._seen_version = seen_version
        self.announcer = announcer
        self._retention_ms = int(retention_seconds * 1000)
        self._lease_seconds = lease_seconds
        self.gateway_id = gateway_of(ids.scope())
        self.budgets = Budgets(ledger=self, clock=clock)
        self.rates = Rates(ledger=self, clock=clock)
        self._number = 0
        self._told_version = -1
        self._unsure: Posting | None = None
        self._draws: deque[tuple[Draw, asyncio.Future[Answered]]] = deque()
        self._rate_draws: deque[tuple[RateDraw, asyncio.Future[RateDrawn]]] = deque()
        self.airspace = Airspace(clock)
        self._whole = False
        self._under_way: Posting | None = None
        self._ended: list[Airborne] = []
        self._calls: deque[Call] = deque()
        self._refusals: dict[RefusalKey, tuple[Call, list[int]]] = {}
        self._warnings: set[tuple[BudgetKey, BudgetLimit]] = set()
        self._leaving = False
        self._awake = False
        self._wanted = asyncio.Event()
        self._urgent = asyncio.Event()
        self.any_open = asyncio.Event()
        self.postings = 0
        self.calls_dropped = 0

    # --- callers -------------------------------------------------------------------------------------------

    def draw(self, draw: Draw) -> "asyncio.Future[Answered]":
        future: asyncio.Future[Answered] = asyncio.get_running_loop().create_future()
        self._draws.append((draw, future))
        self._hurry()
        return future

    def draw_rate(self, draw: RateDraw) -> "asyncio.Future[RateDrawn]":
        future: asyncio.Future[RateDrawn] = asyncio.get_running_loop().create_future()
        self._rate_draws.append((draw, future))
        if draw.need == NO_LOAD:
            self.wake()
        else:
            self._hurry()
        return future

    def _hurry(self) -> None:
        """Somebody waits."""
        self._urgent.set()
        self.wake()

    def wake(self) -> None:
        if not self._awake:
            self._awake = True
            self._wanted.set()

    def opened(self, call_id: CallId, call: Airborne) -> None:
        """A call begins."""
        self.airspace.enter(call_id, call)
        if not self._awake:
            self.wake()

    def ended(self, call_id: CallId, call: Airborne) -> None:
        """A call is over. It is settled with the others of this moment, or as soon as somebody needs what it held."""
        self.airspace.leave(call_id)
        self._ended.append(call)
        if not self._awake:
            self.wake()

    def catch_up(self) -> bool:
        """Settle what is over; says whether there was anything."""
        ended, self._ended = self._ended, []
        for call in ended:
            self._record(call.settle())
        return bool(ended)

    def refused(self, key: RefusalKey, call: Callable[[], Call]) -> None:
        """A call was turned away. An agent that hammers at a closed door fills a row, not a table."""
        if (pending := self._refusals.get(key)) is not None:
            pending[1][0] += 1
        else:
            self._refusals[key] = (call(), [1])
            self.wake()

    def announce(self, event: Event) -> None:
        """Publish something with the next posting."""
        self.announcer.announce(event)
        self.wake()

    def warn(self, key: BudgetKey, limit: BudgetLimit) -> None:
        """Have the owner of a budget know that a bound of it ends, with the next posting and once."""
        self._warnings.add((key, limit))
        self.wake()

    def _record(self, call: Call) -> None:
        if len(self._calls) >= CALLS_BUFFERED_MAX:
            self._calls.popleft()
            self.calls_dropped += 1
        self._calls.append(call)
        if not self._awake:
            self.wake()

    # --- the loop ------------------------------------------------------------------------------------------

    async def enter(self) -> None:
        """Begin: settle what dead gateways left behind, and take a place in the ledger."""
        await self._bury(self._clock.now_ms())
        await self._store.enter(self.gateway_id, self._expiry())

    async def run(self) -> None:
        beat = self._lease_seconds / LEASE_BEATS
        while True:
            await _wait(self._wanted, min(beat, self._rest_seconds))
            await _wait(self._urgent, POSTING_SECONDS)
            self._awake = False
            self._wanted.clear()
            self._urgent.clear()
            try:
                await self.tick()
            except StoreUnavailable as error:
                log.warning("the ledger waits: %s", error)
                await asyncio.sleep(POSTING_SECONDS * 5)
                self.wake()

    async def sweep(self) -> int:
        """Settle the calls of dead gateways and forget old ones; returns how many rows were touched."""
        now = self._clock.now_ms()
        lost = await self._bury(now)
        if lost:
            log.warning("%d open calls of a gateway that died were settled at what was reserved", len(lost))
        before = call_of(scope_floor(now - self._retention_ms))
        await self._store.expire_rates(Millis(now - RATE_KEPT_SECONDS * 1000), SWEEP_ROWS_MAX)
        return len(lost) + await self._store.expire_calls(before, SWEEP_ROWS_MAX)

    async def _bury(self, now: Millis) -> list[Call]:
        latest = Millis(now + int(2 * self._lease_seconds * 1000))
        return await self._store.bury(now, latest=latest, sparing=self.gateway_id, limit=SWEEP_ROWS_MAX)

    async def run_sweeps(self) -> None:
        while True:
            try:
                busy = await self.sweep() >= SWEEP_ROWS_MAX
            except StoreUnavailable as error:
                log.warning("the sweep waits: %s", error)
                busy = False
            await asyncio.sleep(POSTING_SECONDS if busy else self._lease_seconds / 2)

    async def flush(self) -> None:
        """Wait until everything that was known when this was called is written."""
        self.catch_up()
        self._flush_refusals(everything=True)
        self._whole = self.airspace.unwritten
        wanted = self._pending or self._whole or self._under_way is not None
        for _ in range(1 + len(self._calls) // POSTING_CALLS_MAX if wanted else 0):
            await self.draw(Draw(NO_BUDGET, ZERO, ZERO))
        await self.announcer.catch_up()

    def owes(self, agent: AgentKey) -> bool:
        """Whether a call of an agent that is over is not in the books yet."""
        self.catch_up()
        postings = (self._under_way, self._unsure)
        unwritten = chain(
            self._calls,
            (call for call, _ in self._refusals.values()),
            *(posting.calls for posting in postings if posting is not None),
        )
        return any((call.project, call.agent_id) == agent for call in unwritten)

    @property
    def _rest_seconds(self) -> float:
        """How long nothing has to be written, if nobody comes."""
        if self.airspace.unwritten:
            return FLIGHT_SECONDS
        soon = self._refusals or self.budgets.at_hand or self.rates.at_hand
        return BUDGET_FLOAT_SECONDS if soon else self._lease_seconds

    @property
    def _pending(self) -> bool:
        unsettled = self.budgets.pending or self.rates.pending
        return bool(self.airspace.pending or self._calls or unsettled or self._warnings or self._unsure)

    async def leave(self) -> None:
        """End: write what is left, and give back what is at hand."""
        self.catch_up()
        self._flush_refusals(everything=True)
        self._leaving = True
        while self._pending or self._draws or self._rate_draws or self.rates.at_hand:
            await self.tick()
        await self.announcer.catch_up()
        await self._store.leave(self.gateway_id)

    # --- one posting ---------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Write everything that waits now. After an unknown outcome the same posting goes first, under its number."""
        if self._unsure is not None:
            try:
                await self._repeat(self._unsure)
            except StoreUnavailable as error:
                _fail([future for _, future in (*self._draws, *self._rate_draws)], error)
                self._draws.clear()
                self._rate_draws.clear()
                raise
        self.catch_up()
        if self.airspace.calls:
            self.any_open.set()
        else:
            self.any_open.clear()
        self._flush_refusals()
        posting, waiting, pacing = self._compile()
        self._under_way = posting
        try:
            posted = await self._store.post(posting)
        except BaseException as error:
            self._unsure = replace(posting, draws=(), rate_draws=())
            known = isinstance(error, StoreUnavailable)
            interrupted = error if known else StoreUnavailable(problem="the gateway was interrupted")
            _fail([*waiting, *pacing], interrupted)
            raise
        finally:
            self._under_way = None
        if not posted.alive:
            await self._rise(posting, [*waiting, *pacing])
            return
        _answer(waiting, [(self.budgets.era, drawn) for drawn in posted.drawn])
        _answer(pacing, posted.paced)
        self.postings += 1
        await self.announcer.posted(posting, posted.warned)

    def _compile(self) -> tuple[Posting, list["asyncio.Future[Answered]"], list["asyncio.Future[RateDrawn]"]]:
        batch = [self._draws.popleft() for _ in range(min(len(self._draws), POSTING_DRAWS_MAX))]
        paced = [self._rate_draws.popleft() for _ in range(min(len(self._rate_draws), POSTING_DRAWS_MAX))]
        calls = [self._calls.popleft() for _ in range(min(len(self._calls), POSTING_CALLS_MAX))]
        # Whoever drains an agent believes that what was let in before a gateway knew of it is in the books.
        seen_version = self._seen_version()
        told, self._told_version = self._told_version, seen_version
        whole, self._whole = self._whole or seen_version != told, False
        warnings, self._warnings = self._warnings, set()
        self._number += 1
        posting = Posting(
            gateway_id=self.gateway_id,
            number=self._number,
            now_ms=self._clock.now_ms(),
            expires_at_ms=self._expiry(),
            seen_version=seen_version,
            spends=_sum(self.budgets.spends()),
            draws=tuple(draw for draw, _ in batch),
            rate_draws=tuple(draw for draw, _ in paced),
            rate_returns=self.rates.returns(everything=self._leaving),
            opened=self.airspace.rise(everything=whole),
            closed=self.airspace.land(),
            calls=tuple(calls),
            warnings=tuple(warnings),
        )
        if self._draws or self._rate_draws or self._calls:
            self._hurry()
        return posting, [future for _, future in batch], [future for _, future in paced]

    async def _repeat(self, posting: Posting) -> None:
        posted = await self._store.post(posting)
        if not posted.alive:
            self._unsure = None
            await self._rise(posting, [])
            return
        if posted.repeated:
            self.budgets.hold(await self._store.holds(self.gateway_id))
        self._unsure = None
        self.postings += 1
        await self.announcer.posted(posting, posted.warned)

    async def _rise(self, posting: Posting, waiting: Sequence["asyncio.Future[Any]"]) -> None:
        """This gateway was silent for so long that others charged all it held: begin anew, and charge nothing twice."""
        log.warning("gateway %s was taken for dead and begins anew", self.gateway_id)
        unwritten = {flight.call.call_id for flight in posting.opened}
        charged = {*posting.closed, *self.airspace.forget()} - unwritten
        self.budgets.bury()
        self._calls.extendleft(call for call in reversed(posting.calls) if call.call_id not in charged)
        self.gateway_id = gateway_of(self._ids.scope())
        self._number = 0
        _fail(waiting, StoreUnavailable(problem="this gateway was taken for dead"))
        await self._store.enter(self.gateway_id, self._expiry())

    def _flush_refusals(self, *, everything: bool = False) -> None:
        now = self._clock.now_ms()
        for key, (call, count) in list(self._refusals.items()):
            if everything or now - call.started_at_ms >= REFUSAL_WINDOW_MS:
                del self._refusals[key]
                self._record(structs.replace(call, repeats=count[0]) if count[0] > 1 else call)

    def _expiry(self) -> Millis:
        return Millis(self._clock.now_ms() + int(self._lease_seconds * 1000))


def _answer(waiting: Sequence["asyncio.Future[Any]"], answers: Sequence[object]) -> None:
    for future, answer in zip(waiting, answers, strict=True):
        if not future.done():
            future.set_result(answer)


def _fail(waiting: Iterable["asyncio.Future[Any]"], error: StoreUnavailable) -> None:
    for future in waiting:
        if not future.done():
            future.set_exception(error)


def _sum(spends: list[Spend]) -> tuple[Spend, ...]:
    """One entry per account."""
    if len(spends) < 2:
        return tuple(spends)
    totals: dict[BudgetKey, Spend] = {}
    for spend in spends:
        before = totals.get(spend.key)
        totals[spend.key] = (
            spend
            if before is None
            else Spend(spend.key, before.spent.plus(spend.spent), before.released.plus(spend.released))
        )
    return tuple(spend for spend in totals.values() if spend.spent != ZERO or spend.released != ZERO)


async def _wait(event: asyncio.Event, seconds: float) -> None:
    if not event.is_set():
        try:
            async with asyncio.timeout(seconds):
                await event.wait()
        except TimeoutError:
            return
