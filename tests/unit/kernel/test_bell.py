"""Ringing for turns that wait: at one process first, then everywhere, and for each that nobody came for."""

import asyncio

import pytest

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.core.records.event import Channel, Event, subject
from homeostat.kernel.signals import is_for, served
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk, key_of
from homeostat.testing.kernels import running_kernel

SOON_SECONDS = 0.05


async def test_each_turn_that_nobody_came_for_is_rung_for_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.kernel.bell.RING_AT_ONE_SECONDS", SOON_SECONDS)
    desk, bus, clock = Desk("a", "b"), LocalBus(), ManualClock()
    rung = {agent: asyncio.Event() for agent in "ab"}

    async def hear(event: Event) -> None:
        if is_for(event, "anybody"):
            rung[event.target].set()

    async with running_kernel(desk.store, bus=bus, clock=clock) as kernel:
        await bus.subscribe(subject("*", Channel.CMD, "agent", "*", "wakeup"), hear)
        await kernel.bell.listen(bus)
        await bus.publish(tuple(served(key_of(agent), "elsewhere") for agent in "ab"))
        for agent in "ab":
            await kernel.enqueue(desk.message(agent))
            clock.advance(SOON_SECONDS * 0.6)
        assert not any(one.is_set() for one in rung.values()), "whoever had the last turn is asked first"
        loops = [asyncio.ensure_future(run()) for run in (kernel.bell.run, kernel.relay.run)]
        await asyncio.wait_for(rung["a"].wait(), 10.0)
        assert not rung["b"].is_set(), "it has not waited so long"
        clock.advance(SOON_SECONDS)
        await asyncio.wait_for(rung["b"].wait(), 10.0)
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
