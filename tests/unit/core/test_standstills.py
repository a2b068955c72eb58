"""A process that stood still holds nobody else to the time that was lost."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from homeostat.core.clock import SystemClock
from homeostat.core.limits import STANDSTILL_TICK_SECONDS
from homeostat.core.standstills import Standstills
from homeostat.testing.clock import ManualClock


@asynccontextmanager
async def watched(standstills: Standstills) -> AsyncGenerator[None]:
    task = asyncio.create_task(standstills.run())
    await asyncio.sleep(0)
    yield
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize("seen", [False, True], ids=["asked before the timer", "asked after it"])
async def test_what_took_long_because_the_loop_stood_still_tells_nothing(seen: bool) -> None:  # noqa: FBT001
    clock = SystemClock()
    standstills = Standstills(clock)
    async with watched(standstills):
        began = clock.now_ms()
        time.sleep(0.3)  # noqa: ASYNC251 - this is the standstill
        took = clock.now_ms() - began
        if seen:
            await asyncio.sleep(2 * STANDSTILL_TICK_SECONDS)
        assert standstills.spoiled(began, took)
        assert standstills.spoiled(began - 500, took + 500), "a quarter of it is enough"
        assert not standstills.spoiled(began - 5_000, took + 5_000), "five seconds are five seconds"
        assert not standstills.spoiled(began - 1_000, 500), "it was over by then"


async def test_nothing_is_excused_where_nobody_looks_or_nothing_happened() -> None:
    clock = ManualClock()
    standstills = Standstills(clock)
    clock.advance(60)
    assert not standstills.spoiled(clock.now_ms() - 1_000, 1_000)
    async with watched(standstills):
        clock.advance(60)
        assert not standstills.spoiled(clock.now_ms() - 1_000, 1_000), "a hand turned the clock"
    idle = Standstills(SystemClock())
    assert not idle.spoiled(SystemClock().now_ms() - 1_000, 1_000)
