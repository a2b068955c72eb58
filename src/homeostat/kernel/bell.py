"""Ringing for a turn that waits: at the process that had the agent's last one, and everywhere if nobody comes."""

import asyncio
import logging

from homeostat.core.clock import Clock
from homeostat.core.errors import Unavailable
from homeostat.core.ids import AgentId
from homeostat.core.limits import MAILBOXES_CACHED_MAX, RING_AT_ONE_SECONDS, SWEEP_ROWS_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.bus import Bus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.turn import AgentKey
from homeostat.kernel.dock import Dock
from homeostat.kernel.flush import Flusher
from homeostat.kernel.outbox import Relay
from homeostat.kernel.signals import is_for, is_from, origin_of, served, wakeup

log = logging.getLogger(__name__)


class Bell:
    """Who served whom last, as far as one has heard, and the wake-ups that nobody has answered yet.

    All of it is a guess that saves others a race they would lose; a wrong one costs a moment and is forgotten.
    """

    def __init__(
        self, *, store: TurnStore, dock: Dock, flusher: Flusher, relay: Relay, clock: Clock, name: str
    ) -> None:
        self._store = store
        self._dock = dock
        self._flusher = flusher
        self._relay = relay
        self._clock = clock
        self._name = name
        self._served: dict[AgentKey, str] = {}
        self._rung: dict[AgentKey, float] = {}
        self._wanted = asyncio.Event()

    # --- what is said --------------------------------------------------------------------------------------

    def moved(self, key: AgentKey, head: Head) -> Event | None:
        """What other processes should hear of a head that has moved: that a turn waits, or that one is served here."""
        if head.status is HeadStatus.RUNNING:
            return self._serve(key) if self._dock.has(head.worker_id) else None
        if head.status is HeadStatus.DISPATCHED and head.gate is not Gate.CLOSED:
            self._dock.ready(key)
            return self._ring(key)
        return None

    def _serve(self, key: AgentKey) -> Event | None:
        if self._served.get(key) == self._name:
            return None
        self._remember(key, self._name)
        return served(key, self._name)

    def _ring(self, key: AgentKey) -> Event:
        who = self._served.get(key)
        if who is None or who == self._name:
            return wakeup(key, self._name)
        self._rung.pop(key, None)  # so that the oldest stand first
        self._rung[key] = self._clock.monotonic()
        self._wanted.set()
        return wakeup(key, self._name, who)

    def _remember(self, key: AgentKey, who: str) -> None:
        self._rung.pop(key, None)
        self._served[key] = who
        if len(self._served) > MAILBOXES_CACHED_MAX:
            for old in list(self._served)[: MAILBOXES_CACHED_MAX // 8]:
                del self._served[old]

    # --- what is heard -------------------------------------------------------------------------------------

    async def listen(self, bus: Bus) -> None:
        await bus.subscribe(subject("*", Channel.CMD, "agent", "*", "wakeup"), self._on_wakeup)
        await bus.subscribe(subject("*", Channel.CMD, "agent", "*", "served"), self._on_served)

    async def _on_wakeup(self, event: Event) -> None:
        key = (event.project, AgentId(event.target))
        if self._dock.hosts(key) and not is_from(event, self._name):
            self._flusher.forget([key])
            if is_for(event, self._name):
                self._dock.ready(key)

    async def _on_served(self, event: Event) -> None:
        if (origin := origin_of(event)) is not None and origin != self._name:
            self._remember((event.project, AgentId(event.target)), origin)

    def last_served(self, key: AgentKey) -> str | None:
        """The process that is said to have had the agent's last turn."""
        return self._served.get(key)

    def ended(self, key: AgentKey) -> None:
        """A turn of this agent has ended somewhere, so somebody had come for it."""
        self._rung.pop(key, None)

    # --- ringing again -------------------------------------------------------------------------------------

    async def run(self) -> None:
        while True:
            await self._wanted.wait()
            self._wanted.clear()
            await asyncio.sleep(RING_AT_ONE_SECONDS)
            try:
                await self.tick()
            except Unavailable as error:
                log.info("whether all wake-ups were answered is for the watchdog to find out: %s", error)

    async def tick(self) -> int:
        """Ring everywhere for turns whose process did not come; returns how many there were."""
        since = self._clock.monotonic() - RING_AT_ONE_SECONDS
        late = [key for key, rung in self._rung.items() if rung <= since][:SWEEP_ROWS_MAX]
        for key in late:
            del self._rung[key]
        if self._rung:
            self._wanted.set()
        waiting = await self._store.dispatched(late, len(late)) if late else []
        for key in waiting:
            self._served.pop(key, None)
        self._relay.hand_over(None, [wakeup(key, self._name) for key in waiting])
        return len(waiting)
