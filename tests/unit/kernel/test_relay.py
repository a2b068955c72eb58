"""Announcing what was committed: at once, again, and for those who died before they could."""

import asyncio

import pytest

from homeostat.core.codec import NULL
from homeostat.core.errors import BusUnavailable
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import OUTBOX_GRACE_SECONDS
from homeostat.core.ports.bus import Handler, Subscription
from homeostat.core.records.event import Channel, Event
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk
from homeostat.testing.kernels import running_kernel


class Tape:
    """A bus that writes down what it is given."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.down = False

    async def publish(self, events: tuple[Event, ...]) -> None:
        if self.down:
            raise BusUnavailable(problem="down")
        self.heard += [event.event_id for event in events if event.suffix == "task"]

    def wanted(self, suffix: str) -> bool:
        return suffix == "task"

    async def subscribe(self, pattern: str, handler: Handler) -> Subscription:
        raise NotImplementedError

    async def close(self) -> None: ...


def left_behind(clock: ManualClock) -> tuple[Desk, str]:
    """A turn that ended in a process which died before it could say so."""
    desk = Desk("a")
    desk.clock.jump((clock.now_ms() - desk.clock.now_ms()) / 1000)
    grant = desk.begin("a")
    desk.deliver(grant)
    return desk, grant.turn.turn_id


async def sweep_twice(kernel: Kernel, clock: ManualClock) -> None:
    """Two looks of a watchdog, further apart than the grace."""
    await kernel.relay.sweep()
    clock.advance(OUTBOX_GRACE_SECONDS + 0.1)
    await kernel.relay.sweep()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let what was said leave the store with the very next commit."""
    monkeypatch.setattr("homeostat.kernel.flush.RIDERS_TOGETHER", 1)


@pytest.mark.parametrize("off_seconds", [0, -86_400, 86_400])
async def test_what_a_dead_process_left_unsaid_is_said_whatever_its_clock_showed(off_seconds: int) -> None:
    clock, tape = ManualClock(), Tape()
    its_clock = ManualClock()
    its_clock.jump(off_seconds)
    desk, turn_id = left_behind(its_clock)
    async with running_kernel(desk.store, bus=tape, clock=clock) as kernel:
        await sweep_twice(kernel, clock)
        assert set(tape.heard) == {turn_id}
        await kernel.register((DEFAULT_PROJECT, desk.head("a").agent_id))
        assert desk.store.outbox_rows == {}, "what was said leaves the store"


async def test_what_another_process_is_about_to_say_is_left_to_it() -> None:
    clock, tape = ManualClock(), Tape()
    desk, _ = left_behind(clock)
    async with running_kernel(desk.store, bus=tape, clock=clock) as kernel:
        await kernel.relay.sweep()
        assert tape.heard == []


async def test_a_row_waits_while_the_bus_is_down_and_is_said_once_it_is_up() -> None:
    clock, tape = ManualClock(), Tape()
    desk, turn_id = left_behind(clock)
    async with running_kernel(desk.store, bus=tape, clock=clock) as kernel:
        tape.down = True
        await kernel.relay.sweep()
        clock.advance(OUTBOX_GRACE_SECONDS + 0.1)
        with pytest.raises(BusUnavailable):
            await kernel.relay.sweep()
        tape.down = False
        await kernel.relay.sweep()
        assert tape.heard == [turn_id]


async def test_a_commit_s_events_are_published_and_its_row_dropped() -> None:
    tape = Tape()
    desk = Desk("a")
    async with running_kernel(desk.store, bus=tape) as kernel:
        accepted = await kernel.enqueue(desk.message("a"))
        await kernel.stop(DEFAULT_PROJECT, accepted.turn_id, reason="enough", actor="ann")
        assert len(desk.store.outbox_rows) == 1
        tape.down = True
        with pytest.raises(BusUnavailable):
            await kernel.relay.tick()
        assert len(desk.store.outbox_rows) == 1
        tape.down = False
        assert await kernel.relay.tick() == 1
        assert tape.heard == [accepted.turn_id]
        await kernel.register((DEFAULT_PROJECT, desk.head("a").agent_id))
        assert desk.store.outbox_rows == {}


async def test_signals_are_lost_with_the_bus_and_nothing_else_is() -> None:
    tape = Tape()
    async with running_kernel(bus=tape) as kernel:
        tape.down = True
        kernel.relay.hand_over(None, [Event("e", DEFAULT_PROJECT, Channel.EVT, "agent", "a", "task", NULL)])
        with pytest.raises(BusUnavailable):
            await kernel.relay.tick()
        tape.down = False
        assert await kernel.relay.tick() == 0
        assert tape.heard == []


class Slow(Tape):
    """A bus that takes its time over the first thing it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.said = asyncio.Event()

    async def publish(self, events: tuple[Event, ...]) -> None:
        if not self.begun.is_set():
            self.begun.set()
            await self.go.wait()
        await super().publish(events)
        if len(self.heard) == 2:
            self.said.set()


async def test_what_is_handed_over_while_something_else_is_said_is_said_next() -> None:
    tape = Slow()
    async with running_kernel(bus=tape) as kernel:
        relaying = asyncio.ensure_future(kernel.relay.run())
        for name in ("first", "second"):
            said = Event(name, DEFAULT_PROJECT, Channel.EVT, "agent", "a", "task", NULL)
            kernel.relay.hand_over(None, [said])
            await tape.begun.wait()
        tape.go.set()
        await asyncio.wait_for(tape.said.wait(), 10.0)
        assert tape.heard == ["first", "second"]
        relaying.cancel()
        await asyncio.gather(relaying, return_exceptions=True)
