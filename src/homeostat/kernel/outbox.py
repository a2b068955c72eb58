"""The relay: what was committed is announced at least once, whoever lives to do it."""

import asyncio
import logging
from collections import deque

from homeostat.core.clock import Clock
from homeostat.core.errors import BusUnavailable, HomeostatError
from homeostat.core.ids import Scope, scope_floor
from homeostat.core.limits import OUTBOX_BUFFER_MAX, OUTBOX_GRACE_SECONDS, RIDE_SECONDS, SWEEP_ROWS_MAX
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.event import Event
from homeostat.core.records.writes import OutboxRow
from homeostat.kernel.commands import Published
from homeostat.kernel.flush import Flusher

log = logging.getLogger(__name__)

_LAST = Scope("g")  # behind every scope there can be
_PAUSES = (0.05, 5.0)  # between two attempts while the bus is away: at first, and at most


class Relay:
    """Publishes outbox rows straight from the commit, and sweeps up rows that others left behind."""

    def __init__(self, *, bus: Bus, store: TurnStore, flusher: Flusher, clock: Clock) -> None:
        self._bus = bus
        self._store = store
        self._flusher = flusher
        self._clock = clock
        self._rows: deque[OutboxRow] = deque()
        self._leaving: set[Scope] = set()
        self._signals: deque[Event] = deque(maxlen=OUTBOX_BUFFER_MAX)
        self._wanted = asyncio.Event()
        self._seen: dict[Scope, float] = {}
        self._pause = _PAUSES[0]
        self.published = 0
        self.again_seconds: float | None = None

    def hand_over(self, row: OutboxRow | None, signals: list[Event]) -> None:
        """Take what a commit announced. Beyond the buffer's size rows wait in the store, where the sweep finds them."""
        if row is not None and len(self._rows) < OUTBOX_BUFFER_MAX:
            self._rows.append(row)
        if row is not None or signals:
            self._signals.extend(signals)
            self._wanted.set()

    async def run(self) -> None:
        shortest, longest = _PAUSES
        while True:
            await self._wanted.wait()
            await asyncio.sleep(0)  # whoever was answered goes first: the next save is on its way while this is said
            self._wanted.clear()
            try:
                await self.tick()
                self._pause = shortest
            except BusUnavailable as error:
                log.warning("announcements wait in the outbox: %s", error)
                await asyncio.sleep(self._pause)
                self._pause = min(self._pause * 2, longest)
                self._wanted.set()

    async def tick(self) -> int:
        """Publish everything at hand; the rows leave the store with a later flush."""
        rows = list(self._rows)
        signals = list(self._signals)
        self._signals.clear()
        events = tuple(event for row in rows for event in row.events)
        if events or signals:
            await self._bus.publish((*events, *signals))
        if rows:
            for _ in rows:
                self._rows.popleft()
            self._forget([row.outbox_id for row in rows])
        self.published += len(events)
        return len(events)

    async def sweep(self) -> int:
        """Publish rows whose process did not live to do it: old ones, and those that were here a while ago already.

        An id's age is only as good as the clock of the process that gave it. Where one round could not take all there
        is, `again_seconds` says after which time another one may find something else.
        """
        self.again_seconds = None
        found = await self._store.outbox(_LAST, SWEEP_ROWS_MAX)
        now, old = self._clock.monotonic(), scope_floor(int(self._clock.now_ms() - OUTBOX_GRACE_SECONDS * 1000))
        self._seen = {row.outbox_id: self._seen.get(row.outbox_id, now) for row in found}
        held = {*self._leaving, *(row.outbox_id for row in self._rows)}
        rows = [
            row
            for row in found
            if row.outbox_id not in held
            and (row.outbox_id < old or now - self._seen[row.outbox_id] >= OUTBOX_GRACE_SECONDS)
        ]
        if rows:
            await self._bus.publish(tuple(event for row in rows for event in row.events))
            self._forget([row.outbox_id for row in rows])
        if len(found) == SWEEP_ROWS_MAX:
            self.again_seconds = self._worth_a_look_after({row.outbox_id for row in found})
        return len(rows)

    def _worth_a_look_after(self, found: set[Scope]) -> float:
        """What lies behind these comes up when they have left: soon if they were said, else when the bus takes them."""
        if not found.isdisjoint(self._leaving):
            return RIDE_SECONDS
        return OUTBOX_GRACE_SECONDS if found.isdisjoint(row.outbox_id for row in self._rows) else self._pause

    def _forget(self, outbox_ids: list[Scope]) -> None:
        """Drop published rows with the next flush. Should that fail they are announced again, which is allowed."""
        self._leaving.update(outbox_ids)
        future = self._flusher.ride(Published(outbox_ids=tuple(outbox_ids)))
        future.add_done_callback(lambda done: self._forgotten(outbox_ids, done))

    def _forgotten(self, outbox_ids: list[Scope], future: asyncio.Future[bool]) -> None:
        self._leaving.difference_update(outbox_ids)
        if not future.cancelled() and isinstance(error := future.exception(), HomeostatError):
            log.info("published rows stay for the sweep: %s", error)
