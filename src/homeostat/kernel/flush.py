"""Group flush: whatever commands wait share one transaction, and each is answered after its commit."""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from homeostat.core.clock import Clock, Millis
from homeostat.core.errors import HomeostatError, Overloaded, StoreUnavailable
from homeostat.core.ids import Ids, RunId, WorkerId
from homeostat.core.limits import (
    CLOSED_RUNS_MAX,
    FLUSH_COMMANDS_MAX,
    FLUSH_CONFLICTS_MAX,
    FLUSH_SPLIT_MIN,
    FLUSH_WAITING_MAX,
    MAILBOX_CACHED_PAYLOAD_BYTES_MAX,
    MAILBOXES_CACHED_MAX,
    RIDE_SECONDS,
    RIDERS_TOGETHER,
)
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.box import BoxKey
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.head import Gate, Mailbox
from homeostat.core.records.run import GateState
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.writes import OutboxRow, Saved
from homeostat.core.urgency import Haste, is_urgent
from homeostat.kernel import commands as c
from homeostat.kernel.claim import claim
from homeostat.kernel.decide import Decision
from homeostat.kernel.deliverables import Listener
from homeostat.kernel.dock import Berth, Dock
from homeostat.kernel.plan import Plan
from homeostat.kernel.waiting import Waiting

log = logging.getLogger(__name__)

Committed = Callable[[Plan], None]
Claims = list[tuple[Berth, Grant]]
SAVED = Saved()
MESSAGES = (c.Enqueue, c.EnqueueAll)


class Flusher:
    """The only writer of a kernel. Mailboxes it has seen stay at hand; a compare-and-swap proves them still true."""

    def __init__(
        self,
        *,
        store: TurnStore,
        clock: Clock,
        ids: Ids,
        dock: Dock,
        lease_seconds: float,
        committed: Committed,
        wanted: Callable[[str], bool],
    ) -> None:
        self._store = store
        self._clock = clock
        self._ids = ids
        self._dock = dock
        self._lease_ms = int(lease_seconds * 1000)
        self._committed = committed
        self._heard = wanted
        self._waiting: deque[Waiting] = deque()
        self._riders: deque[Waiting] = deque()
        self._departure: asyncio.TimerHandle | None = None
        self._departing = False
        self._idle: deque[asyncio.Future[None]] = deque()
        self._lingering = 0
        self._wanted = False
        self._moving: set[AgentKey] = set()
        self._behind: dict[AgentKey, list[Waiting]] = {}
        self._held = 0
        self._mailboxes: dict[AgentKey, Mailbox] = {}
        self._leases: dict[WorkerId, Millis] = {}
        self._haste = Haste()
        self._urgent = 0
        self.held_runs: set[RunId | None] = set()
        self._closed_runs: dict[RunId | None, None] = {}
        self.on_moved: Callable[[Iterable[AgentKey]], None] = _nobody_listens
        self.commits = 0
        self.conflicts = 0

    # --- the caller's side ---------------------------------------------------------------------------------

    def submit(self, command: c.Command) -> asyncio.Future[Any]:
        """Put a command into the next flush; the future has its answer, or its error, after the commit."""
        self._admit(command)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if is_urgent():
            self._urgent += 1
            self._haste.urgent = True
            future.add_done_callback(self._heeded)
        self._waiting.append(Waiting(command, future))
        if len(self._waiting) == 1:
            self._wake()
        return future

    def _heeded(self, _: asyncio.Future[Any]) -> None:
        """Until all are who wait on an operator's behalf, every flush hurries: it may be the one in their way."""
        self._urgent -= 1
        self._haste.urgent = self._urgent > 0

    def ask(self, command: c.Enqueue | c.EnqueueAll, ending: Listener) -> Waiting:
        """Put messages into the next flush for somebody who waits for the ends of turns, and hears of errors only."""
        self._admit(command)
        asked = Waiting(command, ending, lasting=True)
        self._waiting.append(asked)
        if len(self._waiting) == 1:
            self._wake()
        return asked

    def _admit(self, command: c.Command) -> None:
        if (waiting := len(self._waiting) + self._held) >= FLUSH_WAITING_MAX and isinstance(command, MESSAGES):
            raise Overloaded(problem=f"{waiting} commands")

    def ride(self, command: c.Command) -> asyncio.Future[Any]:
        """Put a command that is in no hurry into a flush with many of its kind, rather than pay a commit for it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._riders.append(Waiting(command, future))
        if self._departure is None:
            self._departure = asyncio.get_running_loop().call_later(RIDE_SECONDS, self._depart)
        return future

    def _depart(self) -> None:
        """Riders have waited: they go with the next flush, and alone if none comes."""
        if self._departing:
            self._wake()
        else:
            self._departing = True
            self._departure = asyncio.get_running_loop().call_later(RIDE_SECONDS, self._depart)

    def at_hand(self, key: AgentKey) -> Mailbox | None:
        """What is remembered of an agent."""
        return self._mailboxes.get(key)

    def forget(self, keys: Iterable[AgentKey]) -> None:
        """Somebody else may have moved these agents: read them again before deciding."""
        keys = tuple(keys)
        self.on_moved(keys)
        for key in keys:
            self._mailboxes.pop(key, None)

    # --- the loop ------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Flush for ever, in as many lanes as the store has: one decides while the other waits for its commit."""
        try:
            async with asyncio.TaskGroup() as lanes:
                for _ in range(self._store.lanes):
                    lanes.create_task(self._lane(), context=self._haste.context())
        finally:
            left = [*self._riders, *self._waiting, *(waiting for held in self._behind.values() for waiting in held)]
            self._fail(left, StoreUnavailable(problem="the kernel is shutting down"))
            self._riders.clear()
            self._waiting.clear()
            self._behind.clear()
            self._held = 0

    async def _lane(self) -> None:
        while True:
            while not self._wanted:
                idle: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._idle.append(idle)
                try:
                    await idle
                finally:
                    if idle in self._idle:
                        self._idle.remove(idle)
            await self.tick()
            self._lingering += 1  # whoever was answered goes first, and may want the next flush at once
            try:
                await asyncio.sleep(0)
            finally:
                self._lingering -= 1

    def _wake(self) -> None:
        """There is something to flush. A lane that is under way looks by itself when it is done."""
        self._wanted = True
        if self._idle and not self._lingering and not (lane := self._idle.popleft()).done():
            lane.set_result(None)

    async def flush(self) -> None:
        """Flush what waits now for somebody who is no lane: what came behind it meanwhile is a lane's to take up."""
        try:
            await self.tick()
        finally:
            if self._wanted:
                self._wake()

    async def tick(self) -> int:
        """Flush what waits now; returns how many commands were answered."""
        batch = self._board()
        if not batch:
            return 0
        moving = {waiting.key for waiting in batch if waiting.key is not None}
        self._moving |= moving
        try:
            await self._flush_or_isolate(batch)
        except asyncio.CancelledError:
            self._fail(batch, StoreUnavailable(problem="the kernel is shutting down"))
            raise
        finally:
            self._moving -= moving
            for key in moving & self._behind.keys() if self._behind else ():
                held = self._behind.pop(key)
                self._held -= len(held)
                self._waiting.extendleft(reversed(held))
                self._wanted = True
        return len(batch)

    def _board(self) -> list[Waiting]:
        """The commands of the next flush. What concerns an agent that is moving already waits until that is done."""
        batch: list[Waiting] = []
        if self._departing or len(self._riders) >= RIDERS_TOGETHER:
            batch += self._riders
            self._riders.clear()
            self._departing = False
            if self._departure is not None:
                self._departure.cancel()
                self._departure = None
        share = min(len(self._waiting), FLUSH_COMMANDS_MAX)
        if (free := len(self._idle) + self._lingering) and share >= FLUSH_SPLIT_MIN:
            share = -(-share // (free + 1))
        if not self._moving and share == len(self._waiting):  # nobody is in the way
            batch += self._waiting
            self._waiting.clear()
            self._wanted = False
            return batch
        for _ in range(share):
            waiting = self._waiting.popleft()
            if waiting.key in self._moving:
                self._behind.setdefault(waiting.key, []).append(waiting)
                self._held += 1
            else:
                batch.append(waiting)
        self._wanted = False
        if self._waiting:
            self._wake()
        return batch

    async def _flush_or_isolate(self, batch: list[Waiting]) -> None:
        try:
            await self._flush(batch)
        except StoreUnavailable as error:
            self._fail(batch, error)
        except Exception as error:  # noqa: BLE001 — whatever it is, callers must be answered
            await self._isolate(batch, error)

    async def _flush(self, batch: list[Waiting]) -> None:
        holding: set[RunId | None] = set()
        held: set[RunId | None] = set()
        void: set[Mandate] = set()
        gone: set[BoxKey] = set()
        for _ in range(FLUSH_CONFLICTS_MAX):
            plan = Plan(
                now=self._clock.now_ms(),
                ids=self._ids,
                lease_ms=self._lease_ms,
                leases=self._leases,
                held_runs=self.held_runs | held if held else self.held_runs,
                closed_runs=self._closed_runs,
                holding_runs=holding,
                void=void,
                gone=gone,
                steps_heard=self._heard("step"),
            )
            await Decision(plan, self._store, self._mailboxes).decide(batch)
            claims = self._claims(plan)
            saved = await self._save(plan, claims)
            if saved.ok:
                self._settle(plan, claims, batch)
                return
            void |= saved.void
            gone |= saved.gone
            for run_id, gate in saved.refused:
                holding.add(run_id)
                if gate is GateState.CLOSED:
                    self._remember_closed(run_id)
            if any(gate is GateState.HELD for _, gate in saved.refused):
                held |= await self._store.runs_held()  # all of them: there may be many in one line
        raise StoreUnavailable(problem=f"{FLUSH_CONFLICTS_MAX} lost races in a row")

    def _remember_closed(self, run_id: RunId) -> None:
        """A run that is over stays over: it need not be asked about again."""
        if len(self._closed_runs) >= CLOSED_RUNS_MAX:
            del self._closed_runs[next(iter(self._closed_runs))]
        self._closed_runs[run_id] = None

    async def _save(self, plan: Plan, claims: Claims) -> Saved:
        """Make a plan durable. All is decided again if a head had moved, or a run may not start what is in it, or a box
        that it names is gone.
        """
        if plan.events:
            plan.writes.outbox = OutboxRow(self._ids.scope(), tuple(plan.events))
        if not plan.writes:
            return SAVED
        stale: Iterable[AgentKey] = plan.mailboxes
        durable = False
        try:
            saved = await self._store.save(plan.writes)
            durable = saved.ok
            stale = () if saved.refused or saved.void or saved.gone else saved.stale or stale
        finally:
            if not durable:
                for berth, _ in claims:
                    self._dock.untake(berth)
                self.forget(stale)
        self.commits += durable
        self.conflicts += not durable
        return saved

    async def _isolate(self, batch: list[Waiting], error: Exception) -> None:
        """One bad command must not take its neighbours down: each is tried alone, and the bad one is told."""
        if len(batch) == 1:
            if not isinstance(error, HomeostatError):
                log.error("a %s could not be flushed", type(batch[0].command).__name__, exc_info=error)
            self._fail(batch, error)
            return
        if not isinstance(error, HomeostatError):  # it costs as many commits as commands: it must not pass unseen
            log.warning("a flush of %d commands is tried one by one: %r", len(batch), error)
        for waiting in batch:
            try:
                await self._flush([waiting])
            except StoreUnavailable as unavailable:
                self._fail([waiting], unavailable)
            except Exception as own:  # noqa: BLE001 — reported to its caller and logged
                await self._isolate([waiting], own)

    @staticmethod
    def _fail(batch: list[Waiting], error: Exception) -> None:
        for waiting in batch:
            waiting.settled, waiting.answer = True, error
            if not waiting.future.done():
                waiting.future.set_exception(error)

    # --- what a commit carries along -----------------------------------------------------------------------

    def _claims(self, plan: Plan) -> Claims:
        """Hand what became ready to workers that are parked here, in this very transaction."""
        claims: Claims = []
        mailboxes, dispatched = plan.mailboxes, HeadStatus.DISPATCHED
        for key in list(plan.touched):
            mailbox = mailboxes[key]
            if mailbox is None or mailbox.head.status is not dispatched:
                continue
            if mailbox.head.gate is Gate.CLOSED:
                continue
            if mailbox.active is not None and not plan.may_begin(mailbox.active.turn.run_id):
                continue
            if (berth := self._dock.take(key)) is None:
                continue
            grant = claim(plan, c.Claim(key=key, worker_id=berth.worker_id))
            assert grant is not None, "a dispatched turn behind an open gate can be claimed"
            claims.append((berth, grant))
        return claims

    def _settle(self, plan: Plan, claims: Claims, batch: list[Waiting]) -> None:
        """Remember what is now true, and answer everybody."""
        self.on_moved(plan.mailboxes)
        mailboxes = self._mailboxes
        for key, mailbox in plan.mailboxes.items():
            if mailbox is None or ((mailbox.active is not None or mailbox.queue) and _heavy(mailbox)):
                mailboxes.pop(key, None)
            elif (known := mailboxes.get(key)) is None or known.head.version <= mailbox.head.version:
                mailboxes[key] = mailbox  # else another lane has seen it later
        if len(self._mailboxes) > MAILBOXES_CACHED_MAX:
            self.forget(list(self._mailboxes)[: MAILBOXES_CACHED_MAX // 8])
        self._leases.update(plan.writes.leases)
        for worker_id in plan.writes.leases_ended:
            self._leases.pop(worker_id, None)
        for waiting in batch:
            future, answer = waiting.future, waiting.answer
            waiting.settled = True
            if isinstance(answer, HomeostatError):
                if not future.done():
                    future.set_exception(answer)
            elif not waiting.lasting and not future.done():
                future.set_result(answer)
        for berth, grant in claims:
            self._dock.grant(berth, grant)
        try:
            self._committed(plan)
        except Exception:  # what is durable must not be tried again, whoever failed to hear of it
            log.exception("a commit could not be announced")


def _nobody_listens(_: Iterable[AgentKey]) -> None: ...


def _heavy(mailbox: Mailbox) -> bool:
    held = len(mailbox.active.turn.payload) if mailbox.active is not None else 0
    for entry in mailbox.queue:
        held += len(entry.turn.payload)
    return held > MAILBOX_CACHED_PAYLOAD_BYTES_MAX
