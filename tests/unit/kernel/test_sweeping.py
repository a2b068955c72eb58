"""Announcements that others left behind are made, and hold up nothing else while the bus is away."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.core.clock import Millis
from homeostat.core.codec import NULL, Json
from homeostat.core.errors import BusUnavailable
from homeostat.core.ids import AgentId, ProjectId, Scope, WorkerId
from homeostat.core.limits import SWEEP_ROWS_MAX
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import AgentKey, MessageType
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.core.records.writes import OutboxRow, Writes
from homeostat.kernel.commands import Deliver, Enqueue
from homeostat.kernel.kernel import Kernel

KEY: AgentKey = (ProjectId("p"), AgentId("ann"))
ALL = Scope("f" * 24)


class AwayBus(LocalBus):
    """A bus whose server is gone."""

    async def publish(self, events: tuple[Event, ...]) -> None:
        raise BusUnavailable(problem=f"{len(events)} events have nowhere to go")


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqliteTurns]:
    engine = SqliteEngine(tmp_path / "turns.db")
    await engine.open()
    yield SqliteTurns(engine)
    await engine.close()


async def leave_behind(store: SqliteTurns, rows: int) -> None:
    """What a process left that died between its commits and its announcements, long ago."""
    for number in range(rows):
        event = Event(f"turn_{number}", *KEY[:1], Channel.EVT, "agent", KEY[1], "task", Json("{}"))
        await store.save(Writes(outbox=OutboxRow(Scope(f"{number:024x}"), (event,))))


async def test_a_long_backlog_is_announced_round_after_round(store: SqliteTurns) -> None:
    await leave_behind(store, 2 * SWEEP_ROWS_MAX + 5)
    heard: list[str] = []
    done = asyncio.Event()

    async def hear(event: Event) -> None:
        heard.append(event.event_id)
        if len(set(heard)) == 2 * SWEEP_ROWS_MAX + 5:
            done.set()

    kernel = Kernel(store=store, bus=LocalBus())
    await kernel.bus.subscribe(subject("*", Channel.EVT, "agent", "*", "task"), hear)
    loops = [asyncio.ensure_future(run()) for _, run in kernel.loops]
    try:
        async with asyncio.timeout(4):  # less than the watchdog's idle pause
            await done.wait()
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
    assert len(heard) == len(set(heard)), "a row was announced again while it was on its way out"


class Counted(SqliteTurns):
    """A store that counts how often a watchdog looks."""

    looks = 0

    async def outbox(self, before: Scope, limit: int) -> list[OutboxRow]:
        self.looks += 1
        return await super().outbox(before, limit)


async def test_while_the_bus_is_away_nobody_looks_again_and_again_at_what_only_waits_for_it(tmp_path: Path) -> None:
    engine = SqliteEngine(tmp_path / "turns.db")
    await engine.open()
    store = Counted(engine)
    kernel = Kernel(store=store, bus=AwayBus())
    loops = [asyncio.ensure_future(run()) for _, run in kernel.loops]
    try:
        await kernel.register(KEY)
        worker = await kernel.open_worker([KEY], lambda _: None)
        for _ in range(SWEEP_ROWS_MAX + 10):
            await kernel.enqueue(Enqueue(key=KEY, type=MessageType.TURN, payload=NULL))
            (grant,) = await kernel.claim(worker, 1, 5)
            await kernel.deliver(Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=NULL))
        await asyncio.sleep(1)
        before = store.looks
        await asyncio.sleep(2)
        assert store.looks - before <= 4, "it looks at the pace of those who would say it"
        assert len(await store.outbox(ALL, 1_000)) > SWEEP_ROWS_MAX
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await engine.close()


async def test_while_the_bus_is_away_the_watchdog_goes_on(store: SqliteTurns) -> None:
    await leave_behind(store, 3)
    kernel = Kernel(store=store, bus=AwayBus())
    lease_end = Millis(kernel.clock.now_ms() + 5_000)
    await store.save(Writes(leases={WorkerId("wrk_1"): lease_end}))
    await kernel.watchdog.tick()
    assert kernel.watchdog._next_ms == lease_end, "it forgot when to look again"
    assert len(await store.outbox(ALL, 10)) == 3
