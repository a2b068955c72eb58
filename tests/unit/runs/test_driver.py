"""Drivers share runs by what they say, not by what their clocks say."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from homeostat.adapters.stores.sqlite import SqliteRuns
from homeostat.app import stores
from homeostat.core.ids import Ids, RunId
from homeostat.core.records.run import Run
from homeostat.runs import driver as driver_module
from homeostat.runs.desk import Desk
from homeostat.runs.driver import Driver
from homeostat.testing.clock import EPOCH_MS, ManualClock
from homeostat.testing.suites.run_store import PROJECT, change_of, following, run_of

HOUR = 3600.0


class Idle:
    """Drives its run nowhere."""

    def __init__(self, _: Desk, run: Run) -> None:
        self.run, self.lost = run, False
        self._woken = asyncio.Event()

    def wake(self) -> None:
        self._woken.set()

    async def drive(self) -> None:
        await self._woken.wait()


class Machines:
    """Processes on one store, each on a machine with a clock of its own; time passes on all of them alike."""

    def __init__(self, store: SqliteRuns) -> None:
        self.store = store
        self.clocks: list[ManualClock] = []

    def driver(self, *, ahead: float = 0.0) -> Driver:
        passed = self.clocks[0].monotonic() if self.clocks else 0.0
        clock = ManualClock(int(EPOCH_MS + 1000 * (passed + ahead)))
        self.clocks.append(clock)
        kernel = SimpleNamespace(flusher=SimpleNamespace(held_runs=set[RunId]()))
        return Driver(cast("Desk", SimpleNamespace(store=self.store, clock=clock, ids=Ids(clock=clock), kernel=kernel)))

    async def tick(self, *drivers: Driver, seconds: float = 1.0, times: int = 1) -> None:
        for _ in range(times):
            for clock in self.clocks:
                clock.advance(seconds)
            for driver in drivers:
                await driver.tick()

    async def rest(self) -> None:
        """The run is over."""
        run = await self.store.run(PROJECT, run_of(1).run_id)
        assert run is not None
        assert await self.store.save(change_of(following(run, live=False)))

    async def epoch(self) -> int:
        run = await self.store.run(PROJECT, run_of(1).run_id)
        assert run is not None
        return run.epoch


@pytest.fixture
async def machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Machines]:
    monkeypatch.setattr(driver_module, "Conductor", Idle)
    engine: Any = await stores.open_engine(f"sqlite://{tmp_path / 'runs.db'}")
    store = SqliteRuns(engine)
    await store.create(change_of(run_of(1)), request_key=None)
    yield Machines(store)
    await engine.close()


@pytest.mark.parametrize("ahead", [-HOUR, -9.0, 0.0, 9.0, HOUR])
async def test_clocks_that_are_apart_take_a_run_from_nobody(machines: Machines, ahead: float) -> None:
    first, second = machines.driver(), machines.driver(ahead=ahead)
    await machines.tick(first, second, times=10)  # on its first look a process has only dates to go by
    epoch = await machines.epoch()
    await machines.tick(first, second, times=60)
    assert await machines.epoch() == epoch


@pytest.mark.parametrize("ahead", [-HOUR, 0.0, HOUR])
async def test_a_driver_that_stops_beating_is_missed_within_its_lease(machines: Machines, ahead: float) -> None:
    first, second = machines.driver(ahead=ahead), machines.driver()
    await machines.tick(first, second, times=10)
    held = await machines.store.driven(first.name)
    dead, heir = (first, second) if held else (second, first)
    before = await machines.epoch()
    await machines.tick(heir, times=6)
    assert await machines.epoch() == before
    await machines.tick(heir, times=6)
    assert await machines.epoch() == before + 1
    assert await machines.store.driven(heir.name)
    assert not await machines.store.driven(dead.name)


async def test_a_process_with_nothing_to_do_looks_when_another_is_due(machines: Machines) -> None:
    first, idle = machines.driver(), machines.driver()
    await machines.tick(first, idle)
    await machines.tick(idle, seconds=6)
    assert idle.patience() == pytest.approx(4.0)  # not five: it would be late by one
    await machines.tick(idle, seconds=idle.patience())
    assert await machines.store.driven(idle.name)


async def test_processes_with_nothing_to_do_say_nothing(machines: Machines) -> None:
    first, second = machines.driver(), machines.driver()
    await machines.tick(first)
    await machines.rest()
    await machines.tick(first, second, times=12)
    assert await machines.store.drivers() == ({}, False)
    await machines.tick(first, second, times=12)
    assert await machines.store.drivers() == ({}, False)


async def test_what_died_before_a_process_began_is_taken_up_at_once(machines: Machines) -> None:
    await machines.tick(machines.driver())
    await machines.tick(seconds=11)
    heir = machines.driver()
    await machines.tick(heir)
    assert await machines.store.driven(heir.name)


async def test_what_died_with_a_clock_that_was_wrong_is_taken_up(machines: Machines) -> None:
    await machines.tick(machines.driver(ahead=24 * HOUR))
    heir = machines.driver()
    await machines.tick(heir)
    assert await machines.store.driven(heir.name)
