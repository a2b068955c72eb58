"""What was learned is written down some at a time: an order about an agent does not wait for ten thousand others."""

from collections.abc import Sequence
from typing import cast

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.core.ids import AgentId, Ids, ProjectId
from homeostat.core.machines.phase import PHASE
from homeostat.core.ports.immune import ImmuneStore
from homeostat.core.records.immune import Chart, Memory, Patient
from homeostat.core.records.turn import AgentKey
from homeostat.immune.archive import FORGOTTEN_PER_PASS_MAX, MEMORIES_PER_SAVE_MAX, Archive
from homeostat.immune.baseline import Baselines
from homeostat.immune.counts import Counts
from homeostat.immune.doctrine import Doctrine
from homeostat.immune.ward import Member, Ward
from homeostat.immune.watch import Watch
from homeostat.testing.clock import ManualClock


class Shelf:
    """Takes what is written, and remembers in how many pieces; refuses to forget those who moved."""

    def __init__(self) -> None:
        self.pieces: list[list[AgentId]] = []
        self.charts: list[Chart] = []
        self.moved: set[AgentKey] = set()

    async def save_memories(self, memories: Sequence[Memory]) -> None:
        self.pieces.append([memory.agent_id for memory in memories])

    async def save(self, chart: Chart) -> bool:
        self.charts.append(chart)
        return not any(patient.key in self.moved for patient in chart.gone)

    async def patient(self, key: AgentKey) -> Patient | None:
        return a_patient(key[1])


def a_patient(name: str) -> Patient:
    return Patient(
        project=ProjectId("p"), agent_id=AgentId(name), version=1, phase=PHASE.initial, since_ms=ManualClock().now_ms()
    )


class Room:
    """A ward full of agents, and the archive beside it."""

    def __init__(self, count: int, *, here: bool = True) -> None:
        self.clock, self.shelf, self.doctrine = ManualClock(), Shelf(), Doctrine()
        store = cast("ImmuneStore", self.shelf)
        self.ward = Ward(store=store, bus=LocalBus(), clock=self.clock, ids=Ids(clock=self.clock), counts=Counts())
        baselines = Baselines()
        for number in range(count):
            watch = Watch(a_patient(f"a{number:05d}"))
            watch.rows["call"] = baselines.allot()
            watch.dirty = True
            self.ward.watches[watch.key] = watch
        member = Member("x", ()) if here else None
        self.archive = Archive(
            ward=self.ward, baselines=baselines, roster=lambda _: member, doctrine=self.doctrine, clock=self.clock
        )

    @property
    def dirty(self) -> int:
        return sum(watch.dirty for watch in self.ward.watches.values())


async def test_a_tick_writes_one_piece_and_the_next_goes_on() -> None:
    room = Room(2 * MEMORIES_PER_SAVE_MAX + 1)
    await room.archive.tick()
    assert room.shelf.pieces == [], "it is not due yet"
    room.clock.advance(room.doctrine.save_seconds)
    for left in (MEMORIES_PER_SAVE_MAX + 1, 1, 0):
        await room.archive.tick()
        assert room.dirty == left
    await room.archive.tick()
    assert [len(piece) for piece in room.shelf.pieces] == [MEMORIES_PER_SAVE_MAX, MEMORIES_PER_SAVE_MAX, 1]
    assert len({name for piece in room.shelf.pieces for name in piece}) == 2 * MEMORIES_PER_SAVE_MAX + 1


async def test_nothing_is_written_of_whoever_is_watched_no_more_or_in_a_drill() -> None:
    room = Room(MEMORIES_PER_SAVE_MAX + 2)
    room.clock.advance(room.doctrine.save_seconds)
    await room.archive.tick()
    *_, drilled, gone = room.ward.watches.values()
    drilled.drill = True
    room.ward.drop(gone.key)
    await room.archive.tick()
    assert sum(map(len, room.shelf.pieces)) == MEMORIES_PER_SAVE_MAX
    assert drilled.dirty


async def test_a_process_that_ends_writes_everything_down() -> None:
    room = Room(2 * MEMORIES_PER_SAVE_MAX + 1)
    assert await room.archive.save() == 2 * MEMORIES_PER_SAVE_MAX + 1
    assert room.dirty == 0


async def test_those_that_left_are_forgotten_together_and_one_by_one_where_somebody_moved() -> None:
    room = Room(FORGOTTEN_PER_PASS_MAX + 3, here=False)
    for watch in room.ward.watches.values():
        watch.heard_at = room.clock.monotonic()
    room.clock.advance(room.doctrine.forget_seconds + 1)
    assert await room.archive.forget_gone() == FORGOTTEN_PER_PASS_MAX + 3
    assert len(room.shelf.charts) == 1
    assert len(room.ward.watches) == 3
    stays = next(iter(room.ward.watches))
    room.shelf.moved.add(stays)
    await room.archive.forget_gone()
    assert list(room.ward.watches) == [stays]
    assert room.ward.counts.forgotten == FORGOTTEN_PER_PASS_MAX + 2
