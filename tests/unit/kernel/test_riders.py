"""What is in no hurry shares a commit with what is, and does not wait for ever."""

import asyncio
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.core.ids import AgentId, ProjectId, Scope
from homeostat.kernel.commands import Published, Register
from homeostat.kernel.kernel import Kernel


@pytest.fixture
async def kernel(tmp_path: Path) -> AsyncGenerator[Kernel]:
    engine = SqliteEngine(tmp_path / "turns.db")
    await engine.open()
    kernel = Kernel(store=SqliteTurns(engine), bus=LocalBus())
    running = asyncio.ensure_future(kernel.flusher.run())
    try:
        yield kernel
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await engine.close()


def published(number: int) -> Published:
    return Published(outbox_ids=(Scope(f"{number:024x}"),))


async def test_a_rider_shares_the_commit_of_whoever_comes_next(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.kernel.flush.RIDE_SECONDS", 3600.0)
    monkeypatch.setattr("homeostat.kernel.flush.RIDERS_TOGETHER", 3)
    riders = [kernel.flusher.ride(published(number)) for number in range(2)]
    await kernel.flusher.submit(Register(key=(ProjectId("p"), AgentId("ann"))))
    assert not any(rider.done() for rider in riders), "two are too few to make a commit longer for"
    riders.append(kernel.flusher.ride(published(2)))
    await asyncio.sleep(0)
    assert kernel.flusher.commits == 1
    await kernel.flusher.submit(Register(key=(ProjectId("p"), AgentId("bob"))))
    assert await asyncio.gather(*riders) == [True] * 3
    assert kernel.flusher.commits == 2


async def test_riders_that_waited_go_with_whoever_comes_next(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.kernel.flush.RIDE_SECONDS", 3600.0)
    rider = kernel.flusher.ride(published(1))
    kernel.flusher._depart()
    await asyncio.sleep(0)
    assert kernel.flusher.commits == 0
    await kernel.flusher.submit(Register(key=(ProjectId("p"), AgentId("ann"))))
    assert await rider
    assert kernel.flusher.commits == 1


async def test_a_rider_leaves_alone_when_nobody_comes(kernel: Kernel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homeostat.kernel.flush.RIDE_SECONDS", 0.01)
    for number in range(2):
        async with asyncio.timeout(5):
            assert await kernel.flusher.ride(published(number))
    assert kernel.flusher.commits == 2
