"""A process goes by the clock of the store that it shares, where its machine's differs and that can be told."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from homeostat.app import timekeeper as module
from homeostat.app.timekeeper import Timekeeper
from homeostat.core.clock import StoreClock, SystemClock
from homeostat.core.errors import StoreUnavailable
from homeostat.core.limits import CLOCK_READING_SECONDS_MAX
from homeostat.testing.clock import EPOCH_MS, ManualClock

HOUR = 3600.0


class Store:
    """Has the time that is right, and takes its time to tell it."""

    def __init__(self, own: ManualClock, *, takes_seconds: float = 0.0) -> None:
        self.own = own
        self.takes_seconds = takes_seconds
        self.away = False
        self.asked = asyncio.Event()
        self.meanwhile: Callable[[], None] = lambda: None

    async def time_ms(self) -> float:
        self.asked.set()
        if self.away:
            raise StoreUnavailable(problem="away")
        self.own.advance(self.takes_seconds / 2)
        told = EPOCH_MS + self.own.monotonic() * 1000
        self.own.advance(self.takes_seconds / 2)
        self.meanwhile()
        return told

    def right_ms(self) -> int:
        return EPOCH_MS + round(self.own.monotonic() * 1000)


def kept(off_seconds: float, *, takes_seconds: float = 0.0) -> tuple[Timekeeper, Store]:
    own = ManualClock()
    own.jump(off_seconds)
    store = Store(own, takes_seconds=takes_seconds)
    return Timekeeper(StoreClock(own), store.time_ms), store


@pytest.mark.parametrize("off_seconds", [0.0, 0.4, -0.4])
async def test_clocks_that_agree_are_left_alone(off_seconds: float, caplog: pytest.LogCaptureFixture) -> None:
    keeper, store = kept(off_seconds, takes_seconds=0.01)
    await keeper.open()
    assert (keeper.clock.offset_ms, keeper.clock.now_ms()) == (0, store.own.now_ms())
    assert not caplog.records


@pytest.mark.parametrize(("off_seconds", "words"), [(HOUR, "3600.0 s ahead of"), (-6.0, "6.0 s behind")])
async def test_a_clock_that_is_off_is_put_right_and_that_is_said_once(
    off_seconds: float, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    keeper, store = kept(off_seconds, takes_seconds=0.2)
    await keeper.open()
    assert keeper.clock.now_ms() == store.right_ms()
    for _ in range(3):
        store.own.advance(2.0)
        assert await keeper.tick()
    assert keeper.clock.now_ms() == store.right_ms()
    assert keeper.clock.monotonic() == store.own.monotonic()
    [told] = caplog.records
    assert words in told.getMessage()
    assert told.levelno == logging.WARNING


async def test_a_clock_that_jumps_is_put_right_at_the_next_look_and_left_alone_when_it_is_set_right() -> None:
    keeper, store = kept(0.0)
    await keeper.open()
    for seconds, offset_ms in [(HOUR, -3_600_000), (-2 * HOUR, 3_600_000), (HOUR + 0.1, 0)]:
        store.own.jump(seconds)
        assert await keeper.tick()
        assert keeper.clock.offset_ms == offset_ms
        assert abs(keeper.clock.now_ms() - store.right_ms()) <= 100


async def test_a_small_step_of_a_clock_that_is_off_moves_nothing() -> None:
    keeper, store = kept(HOUR)
    await keeper.open()
    store.own.jump(0.3)
    assert await keeper.tick()
    assert keeper.clock.offset_ms == -3_600_000


async def test_a_slow_reading_is_not_believed(caplog: pytest.LogCaptureFixture) -> None:
    keeper, store = kept(HOUR, takes_seconds=CLOCK_READING_SECONDS_MAX * 1.1)
    await keeper.open()
    assert keeper.clock.now_ms() == store.own.now_ms()
    assert "too slow" in caplog.text
    store.takes_seconds = 0.0
    assert await keeper.tick()
    assert keeper.clock.now_ms() == store.right_ms()


async def test_less_than_measuring_may_be_wrong_by_is_no_difference() -> None:
    keeper, _ = kept(0.6, takes_seconds=0.4)
    assert await keeper.tick()
    assert keeper.clock.offset_ms == 0


async def test_a_clock_that_is_set_while_it_is_read_is_read_again() -> None:
    keeper, store = kept(0.0)
    store.meanwhile = lambda: store.own.jump(HOUR)
    assert not await keeper.tick()
    assert keeper.clock.offset_ms == 0
    store.meanwhile = lambda: None
    assert await keeper.tick()
    assert keeper.clock.now_ms() == store.right_ms()


async def test_a_store_that_is_away_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, store = kept(HOUR)
    await keeper.open()
    store.away = True
    with pytest.raises(StoreUnavailable):
        await keeper.tick()
    store.asked.clear()
    rested = _rests(monkeypatch, store)
    running = asyncio.create_task(keeper.run())
    await store.asked.wait()
    await asyncio.sleep(0)
    assert not running.done(), "the loop goes on"
    assert rested[0] > 1
    running.cancel()
    assert keeper.clock.now_ms() == store.right_ms()


async def test_a_jump_is_looked_into_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    keeper, store = kept(0.0)
    await keeper.open()
    store.asked.clear()
    store.own.jump(HOUR)
    rested = _rests(monkeypatch, store)
    running = asyncio.create_task(keeper.run())
    await store.asked.wait()
    running.cancel()
    assert rested[0] <= 1
    assert keeper.clock.now_ms() == store.right_ms()


def _rests(monkeypatch: pytest.MonkeyPatch, store: Store) -> list[int]:
    """Let time pass by hand; how often the loop waited is in the list."""
    rested, pause = [0], asyncio.sleep

    async def sleep(seconds: float) -> None:
        rested[0] += not store.asked.is_set()
        store.own.advance(seconds)
        await pause(0)

    monkeypatch.setattr(module, "asyncio", _Loop(sleep))
    return rested


class _Loop:
    def __init__(self, sleep: Callable[[float], Awaitable[None]]) -> None:
        self.sleep = sleep


def test_a_system_clock_is_read_without_a_detour() -> None:
    system, clock = SystemClock(), StoreClock(SystemClock())
    assert abs(clock.now_ms() - system.now_ms()) < 1_000
    clock.offset_ms = 3_600_000
    assert 3_599_000 < clock.now_ms() - system.now_ms() < 3_601_000
    assert clock.monotonic is SystemClock.monotonic
