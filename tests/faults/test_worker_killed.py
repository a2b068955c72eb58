"""A worker is killed at each await of a turn; on restart the turn ends once, and stored steps are not repeated."""

import asyncio
import multiprocessing
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

import pytest

from homeostat.app.assemble import System, assemble
from homeostat.app.settings import Settings
from homeostat.core.codec import from_json, to_json
from homeostat.core.ids import DEFAULT_PROJECT, AgentId, TurnId
from homeostat.core.records.turn import MessageType
from homeostat.kernel.commands import Enqueue
from homeostat.server.serving import bind, serving, url_of

sys.path.insert(0, str(Path(__file__).parent))
import worker_victim as victim

KEY = (DEFAULT_PROJECT, AgentId(victim.AGENT))
# Workers are forked from a process that has everything loaded, so that killing one costs no time.
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(["worker_victim"])


@pytest.fixture(params=["sqlite", "postgres", "server"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.getfixturevalue("postgres_url") if request.param == "postgres" else f"sqlite://{tmp_path}/turns.db"


@asynccontextmanager
async def opened(url: str, folder: Path) -> AsyncGenerator[System]:
    async with assemble(Settings(store_url=url, lease_seconds=victim.LEASE_SECONDS, data_dir=folder)) as system:
        yield system


async def lived(life: victim.Life) -> int | None:
    """How a worker's process ended."""
    process: ForkServerProcess = FORKS.Process(target=victim.main, args=(life,))
    process.start()
    try:
        await asyncio.to_thread(process.join, victim.PATIENCE_SECONDS)
        return process.exitcode
    finally:
        process.kill()
        process.join()
        process.close()


async def send(system: System) -> TurnId:
    await system.kernel.register(KEY)
    return (await system.kernel.enqueue(Enqueue(key=KEY, type=MessageType.TURN, payload=to_json({"n": 1})))).turn_id


@pytest.mark.parametrize("kill_at", [None, *victim.POINTS])
async def test_a_worker_killed_at_any_await_loses_and_repeats_nothing(
    tmp_path: Path, url: str, request: pytest.FixtureRequest, kill_at: str | None
) -> None:
    diary = tmp_path / "diary"
    async with AsyncExitStack() as stack:
        # A server outlives its workers. On the store itself a worker is all there is: what ends with it is everything.
        system = await stack.enter_async_context(opened(url, tmp_path))
        turn_id, place = await send(system), url
        if "server" in request.node.callspec.id:
            listener = bind("127.0.0.1", 0)
            await stack.enter_async_context(serving(system, listener))
            place = url_of(listener)
        else:
            await stack.aclose()
        life = victim.Life(place=place, diary=str(diary), turn_id=turn_id, kill_at=kill_at)
        code = await lived(life)
        if kill_at is not None:
            assert code == -signal.SIGKILL, diary.read_text()
            code = await lived(replace(life, kill_at=None, survivor=True))
        assert code == 0, diary.read_text()
    check_story(diary.read_text().splitlines(), kill_at)
    async with opened(url, tmp_path) as system:
        await check_traces(system, turn_id)


def check_story(story: list[str], kill_at: str | None) -> None:
    """What was stored was not done again, and what was not stored was done by somebody."""
    for name in ("a", "b"):
        times = 2 if kill_at in victim.UNKEPT[name] else 1
        assert story.count(f"effect {name}") == times, story
        stored = [place for place, line in enumerate(story) if line == f"stored {name}"]
        assert not stored or max(place for place, line in enumerate(story) if line == f"effect {name}") < stored[0]
    if kill_at is None:
        assert [line.removeprefix("point ") for line in story if line.startswith("point")] == list(victim.POINTS)


async def check_traces(system: System, turn_id: Any) -> None:
    """One deliverable, one card of each write, one call of the tool; and the agent is free."""
    delivered = await system.kernel.deliverables.wait(DEFAULT_PROJECT, turn_id, 1)
    assert delivered is not None
    assert from_json(delivered.result) == ["did a", "result 1", "did b", 1]
    cards = await system.kernel.store.box(DEFAULT_PROJECT, delivered.output_box_id, after=-1, limit=50)
    assert cards is not None
    assert sorted(card.type for card in cards) == ["note", "task.deliverable", "tool.call", "tool.result"]
    assert (await system.memory.recall(KEY))["history"] == "1", "the turn was counted once"
    head = await system.kernel.store.head(*KEY)
    assert head is not None
    assert (head.head.status, head.head.queued) == ("idle", 0)
