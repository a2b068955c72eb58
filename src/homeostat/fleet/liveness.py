"""The sweep: silence becomes a verdict when its date comes, and in no other way."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Sequence

from homeostat.core.clock import Clock, Millis
from homeostat.core.errors import AgentGone, AgentUnknown, StoreUnavailable, Unavailable
from homeostat.core.ids import AgentId
from homeostat.core.limits import (
    FLEET_SWEEP_IDLE_SECONDS,
    LISTENING_GAP_SECONDS,
    SWEEP_ROUNDS_MAX,
    SWEEP_ROWS_MAX,
)
from homeostat.core.machines.liveness import LIVENESS, Liveness, missed
from homeostat.core.ports.fleet import StatusKeeper
from homeostat.core.records.fleet import Admission, Departure, Mark, Silence
from homeostat.core.wire.fleet import UpdateEvent
from homeostat.fleet.broadcast import Broadcaster
from homeostat.fleet.registry import Registry
from homeostat.fleet.updates import fell

log = logging.getLogger(__name__)

_TOLD = {Liveness.STALE: UpdateEvent.STALE, Liveness.DEAD: UpdateEvent.DEAD}


class Sweeper:
    """Marks the silent, a bounded number at a time, at a cost that follows their number and not the fleet's."""

    def __init__(
        self,
        *,
        registry: Registry,
        keeper: StatusKeeper,
        broadcaster: Broadcaster,
        clock: Clock,
        listen: Callable[[], Awaitable[None]],
    ) -> None:
        self._registry = registry
        self._keeper = keeper
        self._broadcaster = broadcaster
        self._clock = clock
        self._listen = listen
        self._next_ms: Millis | None = None
        self._deaf = False
        self._waking_ms = Millis(0)
        self._looked_ms = clock.now_ms()
        self._sooner = asyncio.Event()
        self.marked = {Liveness.STALE: 0, Liveness.DEAD: 0, Liveness.GONE: 0}
        self.last_seconds = 0.0

    async def run(self) -> None:
        while True:
            try:
                if self._deaf:
                    await self._listen()
                    self._deaf = False
                await self.tick()
            except Unavailable as error:
                log.warning("the sweep could not look: %s", error)
                self._next_ms = None
            await self._sleep()

    def expect(self, instant: int) -> None:
        """Somebody new will be due; look then, if that is sooner than planned."""
        if instant < self._waking_ms:
            self._waking_ms = Millis(instant)
            self._sooner.set()

    async def _sleep(self) -> None:
        """Wait for the next date. Waking far too late means that this process stood still, and heard nobody."""
        now = self._notice(self._looked_ms)
        idle_ms = int(FLEET_SWEEP_IDLE_SECONDS * 1000)
        self._waking_ms = Millis(now + idle_ms if self._next_ms is None else min(self._next_ms, now + idle_ms))
        while (left := self._waking_ms - self._clock.now_ms()) > 0:
            self._sooner.clear()
            try:
                async with asyncio.timeout(left / 1000):
                    await self._sooner.wait()
            except TimeoutError:
                break
        self._notice(self._waking_ms)

    def _notice(self, expected_ms: Millis) -> Millis:
        """What time it is; far from what was expected, nobody listened, or the clock was set."""
        now = self._clock.now_ms()
        if abs(now - expected_ms) > LISTENING_GAP_SECONDS * 1000:
            log.warning("nobody listened for a while; that silence is not held against anybody")
            self._deaf = True  # and nobody is judged before that is settled, however long the store is away
        return now

    async def tick(self) -> int:
        """One bounded round; returns how many verdicts were passed."""
        began = self._clock.monotonic()
        passed = 0
        now = self._looked_ms = self._clock.now_ms()  # one for all: a clock that is set meanwhile is noticed after it
        for _ in range(SWEEP_ROUNDS_MAX):
            roll = await self._keeper.roll(now, SWEEP_ROWS_MAX)
            if roll.lost:
                await self._listen()
                now = self._looked_ms = self._clock.now_ms()
                continue
            self._next_ms = roll.next_ms
            if not roll.silent:
                break
            passed += await self._judge(roll.silent, now)
            self._next_ms = now
            await asyncio.sleep(0)  # heartbeats come first
        self.last_seconds = self._clock.monotonic() - began
        return passed

    async def _judge(self, silent: Sequence[Silence], now: Millis) -> int:
        heard = await self._heard_elsewhere(silent, now)
        marks: list[Mark] = []
        doubtful: list[Silence] = []
        departing: list[AgentId] = []
        for silence in silent:
            if silence.agent_id in heard:
                continue
            if self._registry.get(silence.agent_id) is None or silence.presence is Liveness.GONE:
                doubtful.append(silence)
                continue
            event = missed(silence.presence, now=now, counted_ms=silence.counted_ms, interval_ms=silence.interval_ms)
            verdict = LIVENESS.next(silence.presence, event)
            if verdict is Liveness.GONE:
                departing.append(silence.agent_id)
            else:
                marks.append(Mark(silence, verdict, now))
        for silence in doubtful:
            await self._clear_up(silence, now)
        passed = await self._mark(marks, now)
        for agent_id in departing:
            passed += await self._expire(agent_id, now)
        return passed

    async def _heard_elsewhere(self, silent: Sequence[Silence], now: Millis) -> Collection[AgentId]:
        """Whom other processes heard; while that cannot be read, nobody is taken off the register they share."""
        try:
            return await self._keeper.heard_elsewhere(silent, now)
        except StoreUnavailable:
            if any(silence.presence is Liveness.DEAD for silence in silent):
                raise
            return ()

    async def _clear_up(self, silence: Silence, now: Millis) -> None:
        """The keeper holds an agent this process does not know, or has lost a part of one; the store decides."""
        try:
            member = await self._registry.confirm(silence.agent_id)
        except (AgentUnknown, AgentGone):
            await self._keeper.drop([silence.agent_id])
            return
        if silence.presence is Liveness.GONE:
            await self._keeper.admit(now, Admission(member.entry, self._registry.interval(member).ms))

    async def _mark(self, marks: list[Mark], now: Millis) -> int:
        if not marks:
            return 0
        applied = set(await self._keeper.mark(marks))
        for mark in marks:
            member = self._registry.get(mark.silence.agent_id)
            if mark.silence.agent_id in applied and member is not None:
                self._broadcaster.publish(fell(_TOLD[mark.presence], member.entry, mark.presence, now))
                self.marked[mark.presence] += 1
        return len(applied)

    async def _expire(self, agent_id: AgentId, now: Millis) -> int:
        left = await self._registry.leave(agent_id, Departure.EXPIRED)
        await self._keeper.drop([agent_id])
        if left is None:
            return 0
        self._broadcaster.publish(fell(UpdateEvent.EXPIRED, left, Liveness.GONE, now))
        self.marked[Liveness.GONE] += 1
        return 1
