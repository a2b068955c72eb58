"""A task's time-out holds, whatever the clock said that named its beginning."""

from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, TurnId
from homeostat.core.machines.task import TaskStatus
from homeostat.core.records.run import Target, TargetKind, Task, TaskSpec
from homeostat.runs.desk import Desk
from homeostat.runs.timekeeping import Timekeeper
from homeostat.testing.clock import ManualClock
from tests.unit.runs.test_starting import RUN

TURN = TurnId("turn_" + "0" * 24)
CHILD = TurnId("turn_" + "1" * 24)
DAY_MS = 24 * 3600 * 1000


class Bench:
    """A task with a time-out of five seconds, and since when the store says that its turn is worked on."""

    def __init__(self, *, began_ahead_ms: int = 0, started_ahead_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.stopped: list[TurnId] = []
        self.began: dict[TurnId, Millis] = {TURN: Millis(self.clock.now_ms() + began_ahead_ms)}
        desk = SimpleNamespace(clock=self.clock, store=self, kernel=self)
        self.timekeeper = Timekeeper(cast("Desk", desk))
        spec = TaskSpec(name="t", target=Target(TargetKind.AGENT, "a"), input=msgspec.Raw(b"1"), timeout_seconds=5.0)
        started = Millis(self.clock.now_ms() + started_ahead_ms)
        self.timekeeper.mind(Task(0, spec, TaskStatus.RUNNING, 1, TURN, AgentId("a"), None, started))

    async def working(self, *_: Any, **__: Any) -> dict[TurnId, Millis]:
        return self.began

    async def stop(self, _: object, turn_id: TurnId, **__: Any) -> None:
        self.stopped.append(turn_id)

    async def open_below(self, _: object, turn_id: TurnId, *, after: TurnId | None, **__: Any) -> list[Any]:
        assert turn_id == TURN
        return [] if after is not None else [(AgentId("b"), CHILD)]

    async def after(self, seconds: float) -> bool:
        """Whether the turn was stopped by then."""
        self.clock.advance(seconds)
        await self.timekeeper.enforce(RUN, self.clock.now_ms(), {0: TURN})
        return bool(self.stopped)


@pytest.mark.parametrize("started_ahead_ms", [0, DAY_MS])
async def test_a_task_has_its_time_and_no_more(started_ahead_ms: int) -> None:
    bench = Bench(started_ahead_ms=started_ahead_ms)
    assert not await bench.after(4.9)
    assert await bench.after(0.2)


async def test_what_a_turn_asked_of_others_ends_after_it() -> None:
    bench = Bench()
    assert await bench.after(5.1)
    assert bench.stopped == [TURN, CHILD]


async def test_a_turn_that_began_in_the_future_has_its_time_from_when_that_was_seen() -> None:
    bench = Bench(began_ahead_ms=DAY_MS)
    assert not await bench.after(5.0)
    assert not await bench.after(4.9)
    assert await bench.after(0.2)


async def test_a_turn_that_waits_in_line_is_not_stopped() -> None:
    bench = Bench()
    bench.began = {}
    for _ in range(5):
        assert not await bench.after(6.0)
