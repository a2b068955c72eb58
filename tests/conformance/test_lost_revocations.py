"""A turn that one process takes away is heard of in another at the next beat, though no word of it ever arrives.

The processes share a store and nothing else: no bus tells one what another did.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app import stores
from homeostat.app.local_turns import LocalTurns
from homeostat.app.sessions import WorkerSessions
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, ProjectId, TurnId
from homeostat.core.records.turn import MessageType
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence, fence_of
from homeostat.kernel.commands import Enqueue
from homeostat.kernel.kernel import Kernel

KEY = (ProjectId("p"), AgentId("ann"))
NULL = Json("null")

Order = Callable[[Kernel, TurnId], Awaitable[object]]


async def stop(kernel: Kernel, turn_id: TurnId) -> None:
    assert (await kernel.stop(KEY[0], turn_id, reason="enough", actor="operator")).stopped


async def preempt(kernel: Kernel, turn_id: TurnId) -> None:
    assert await kernel.preempt(KEY, turn_id) == turn_id


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return f"sqlite://{tmp_path / 'turns.db'}"


@asynccontextmanager
async def process(url: str) -> AsyncGenerator[Kernel]:
    """A kernel with an engine and a bus of its own."""
    engine = await stores.open_engine(url)
    kernel = Kernel(store=stores.turn_store(engine), bus=LocalBus())
    await kernel.listen()
    loops = [asyncio.ensure_future(run()) for _, run in kernel.loops]
    try:
        yield kernel
    finally:
        for loop in loops:
            loop.cancel()
        await asyncio.gather(*loops, return_exceptions=True)
        await engine.close()


@asynccontextmanager
async def two(url: str) -> AsyncGenerator[tuple[Kernel, Kernel]]:
    async with process(url) as here, process(url) as there:
        await here.register(KEY)
        yield here, there


async def sent(kernel: Kernel) -> TurnId:
    return (await kernel.enqueue(Enqueue(key=KEY, type=MessageType.TURN, payload=NULL))).turn_id


@pytest.mark.parametrize("order", [stop, preempt])
async def test_a_worker_in_the_process_hears_of_it_at_its_next_beat(url: str, order: Order) -> None:
    revoked: list[Fence] = []
    async with two(url) as (here, there):
        session = await LocalTurns(here).open([KEY], revoked.append)
        turn_id = await sent(here)
        (grant,) = await session.claim(1, 5)
        await session.renew()
        assert revoked == [], "what is held is not lost"
        await order(there, turn_id)
        assert revoked == [], "there is nothing between the two that could have told it"
        async with asyncio.timeout(10):
            await session.renew(60)  # it returns early when it has something to tell
        assert revoked == [fence_of(grant)]
        await session.renew()
        assert len(revoked) == 1, "it is told once"


@pytest.mark.parametrize("order", [stop, preempt])
async def test_a_worker_elsewhere_hears_of_it_in_the_answer_to_its_next_beat(url: str, order: Order) -> None:
    async with two(url) as (here, there):
        session, _ = await WorkerSessions(here, LocalTurns(here)).open([KEY], None, [])
        turn_id = await sent(here)
        (grant,) = await session.claim(1, 5, [])
        assert await session.renew(0, [turn_id]) == []
        await order(there, turn_id)
        async with asyncio.timeout(10):
            assert await session.renew(60, [turn_id]) == [fence_of(grant)]
        assert await session.renew(0, [turn_id]) == [fence_of(grant)], "the answer may have been lost"


async def test_a_turn_that_was_put_back_and_granted_anew_is_not_taken_for_the_lost_one(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homeostat.kernel.workers.SAFETY_POLL_SECONDS", 0.2)
    revoked: list[Fence] = []
    async with two(url) as (here, there):
        session = await LocalTurns(here).open([KEY], revoked.append)
        turn_id = await sent(here)
        (old,) = await session.claim(1, 5)
        await preempt(there, turn_id)
        (new,) = await session.claim(1, 20)
        assert new.epoch > old.epoch
        await session.renew()
        assert revoked == [fence_of(old)]
        await session.deliver(new, status=Outcome.SUCCESS, result=NULL)


async def test_one_that_its_worker_gave_up_itself_is_not_said_to_be_lost(url: str) -> None:
    revoked: list[Fence] = []
    async with two(url) as (here, _):
        session = await LocalTurns(here).open([KEY], revoked.append)
        for _ in range(2):
            await sent(here)
        (first,) = await session.claim(1, 5)
        delivered = await session.deliver(first, status=Outcome.SUCCESS, result=NULL, claim_next=True)
        assert delivered.next is not None
        await session.renew()
        await session.release(delivered.next)
        await session.renew()
        assert revoked == []


@pytest.mark.parametrize("order", [stop, preempt])
async def test_a_worker_elsewhere_hears_of_it_at_the_server_that_did_not_grant_it(url: str, order: Order) -> None:
    async with two(url) as (here, there):
        first, _ = await WorkerSessions(here, LocalTurns(here)).open([KEY], None, [])
        other, _ = await WorkerSessions(there, LocalTurns(there)).open([KEY], first.worker_id, [])
        turn_id = await sent(here)
        (grant,) = await first.claim(1, 5, [])
        assert await other.renew(0, [], [fence_of(grant)]) == []
        await order(here, turn_id)
        async with asyncio.timeout(10):
            assert await other.renew(60, [], [fence_of(grant)]) == [fence_of(grant)]
