"""Keeps what is normal for each agent beyond the life of a process, and forgets agents that left."""

from collections import deque
from dataclasses import dataclass, replace
from typing import Final

from homeostat.core.clock import Clock
from homeostat.core.ids import AgentId
from homeostat.core.machines.phase import RUNS
from homeostat.core.ports.immune import ImmuneStore
from homeostat.core.records.immune import Chart, Memory
from homeostat.core.records.turn import AgentKey
from homeostat.immune.baseline import Baselines, Normal
from homeostat.immune.behaviour import Habits
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.intake import CALL
from homeostat.immune.ward import Roster, Ward
from homeostat.immune.watch import Watch

MEMORIES_PER_SAVE_MAX: Final = 500
FORGOTTEN_PER_PASS_MAX: Final = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Portrait:
    """What is normal for one stream of an agent's vitals."""

    stream: str
    normals: tuple[Normal, ...]
    samples: int
    accelerated: int  # samples for which it still adapts fast
    habits: Habits


class Archive:
    """Reads and writes baselines and habits."""

    def __init__(self, *, ward: Ward, baselines: Baselines, roster: Roster, doctrine: Doctrine, clock: Clock) -> None:
        self._ward = ward
        self._baselines = baselines
        self._roster = roster
        self._doctrine = doctrine
        self._clock = clock
        self._saved_at = clock.monotonic()
        self._unsaved: deque[Watch] = deque()

    @property
    def _store(self) -> ImmuneStore:
        return self._ward.store

    async def tick(self) -> None:
        """Write down what changed and forget who left, every now and then; some of it at a time, as orders wait."""
        if not self._unsaved and self._clock.monotonic() - self._saved_at >= self._doctrine.save_seconds:
            await self.forget_gone()
            self._begin()
        if self._unsaved:
            await self._save_some()

    async def save(self) -> int:
        """Write down what changed since the last time, all of it."""
        self._begin()
        written = 0
        while self._unsaved:
            written += await self._save_some()
        return written

    def _begin(self) -> None:
        self._saved_at = self._clock.monotonic()
        self._unsaved = deque(watch for watch in self._ward.watches.values() if watch.dirty and not watch.drill)

    async def _save_some(self) -> int:
        """What is not written down for some reason is still to be, the next time."""
        some: list[Watch] = []
        memories: list[Memory] = []
        while self._unsaved and len(memories) < MEMORIES_PER_SAVE_MAX:
            watch = self._unsaved.popleft()
            if self._ward.watches.get(watch.key) is watch and not watch.drill:
                some.append(watch)
                memories += self._memories(watch)
        await self._store.save_memories(memories)
        for watch in some:
            watch.dirty = False
        return len(memories)

    def _memories(self, watch: Watch) -> list[Memory]:
        return [
            Memory(
                project=watch.key[0],
                agent_id=watch.key[1],
                stream=stream,
                state=self._baselines.export(row),
                habits=watch.habits.export() if stream == CALL else "{}",
                saved_at_ms=self._clock.now_ms(),
            )
            for stream, row in watch.rows.items()
        ]

    async def recall(self) -> None:
        """Know again what was normal before this process began."""
        for memory in await self._store.memories():
            watch = self._ward.watches.get((memory.project, AgentId(memory.agent_id)))
            if watch is None or memory.stream in watch.rows:
                continue
            row = self._baselines.allot()
            try:
                self._baselines.restore(row, memory.state)
            except ValueError:
                self._baselines.free(row)
                continue
            watch.rows[memory.stream] = row
            if memory.stream == CALL:
                watch.habits = Habits.restore(memory.habits)

    # --- one agent -----------------------------------------------------------------------------------------

    async def portraits(self, key: AgentKey, *, live: bool) -> list[Portrait]:
        """What is normal for an agent: as it is this moment, or as whoever decides has last written it down."""
        watch = self._ward.watches.get(key)
        if live and watch is not None:
            return [_portrait(self._baselines, row, stream, watch.habits) for stream, row in watch.rows.items()]
        found: list[Portrait] = []
        for memory in await self._store.memories():
            if (memory.project, memory.agent_id) != key:
                continue
            shown = Baselines(capacity=1)
            row = shown.allot()
            try:
                shown.restore(row, memory.state)
            except ValueError:
                continue
            found.append(_portrait(shown, row, memory.stream, Habits.restore(memory.habits)))
        return found

    async def unlearn(self, watch: Watch) -> None:
        """Forget what was normal for an agent, here and in the store."""
        self._baselines.reset(list(watch.rows.values()))
        watch.calm()
        watch.habits = Habits()
        watch.unlearn = False
        blank = Baselines(capacity=1)
        state = blank.export(blank.allot())
        kept = [memory for memory in await self._store.memories() if (memory.project, memory.agent_id) == watch.key]
        await self._store.save_memories([replace(memory, state=state, habits="{}") for memory in kept])

    def accelerate(self, watch: Watch) -> None:
        self._baselines.accelerate(list(watch.rows.values()))
        watch.dirty = True

    # --- those that left -----------------------------------------------------------------------------------

    def gone(self, watch: Watch) -> bool:
        """Whether an agent has left the fleet and is not heard of any more.

        The silence of one that is known from before counts from now: others may have heard of it yesterday.
        """
        now = self._clock.monotonic()
        if watch.heard_at is None:
            watch.heard_at = now
        return now - watch.heard_at > self._doctrine.forget_seconds and self._roster(watch.key) is None

    async def forget_gone(self) -> int:
        """Forget agents that left. Those that are held stay held, should they come back under their name."""
        left = [watch for watch in self._ward.watches.values() if watch.phase in RUNS and self.gone(watch)]
        some = left[:FORGOTTEN_PER_PASS_MAX]
        if some and await self._store.save(Chart(gone=tuple(watch.patient for watch in some))):
            for watch in some:
                self._drop(watch)
        else:  # one of them has moved
            for watch in some:
                await self._forget(watch)
        return len(left)

    async def _forget(self, watch: Watch) -> None:
        if await self._store.save(Chart(gone=(watch.patient,))):
            self._drop(watch)
        else:
            await self._ward.reload(watch.key)

    def _drop(self, watch: Watch) -> None:
        for row in watch.rows.values():
            self._baselines.free(row)
        self._ward.drop(watch.key)
        self._ward.counts.forgotten += 1


def _portrait(baselines: Baselines, row: int, stream: str, habits: Habits) -> Portrait:
    return Portrait(
        stream=stream,
        normals=baselines.normals(row),
        samples=baselines.samples(row),
        accelerated=int(baselines.column("accelerated")[row]),
        habits=habits if stream == CALL else Habits(),
    )
