"""Two kernels on one store hear each other over a real NATS server, and manage without it."""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count
from pathlib import Path

import pytest

from homeostat.adapters.doorbells.nats import NatsBus
from homeostat.adapters.stores.sqlite import SqliteEngine, SqliteTurns
from homeostat.core.codec import Json, from_json
from homeostat.core.errors import StaleEpoch
from homeostat.core.ids import AgentId, ProjectId, ToolCallId, TurnId, WorkerId
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.turn import AgentKey, Grant, MessageType, ToolCall, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence, fence_of
from homeostat.kernel import bell
from homeostat.kernel.commands import Deliver, Enqueue, Suspend
from homeostat.kernel.kernel import Kernel
from homeostat.testing.servers import NatsServer
from homeostat.testing.suites.bus import eventually

# Far less than the safety poll, the watchdog's rounds and a lease: what happens within it was announced.
PROMPTLY_SECONDS = 3.0

numbers = count(1)


@pytest.fixture
def key() -> AgentKey:
    return (ProjectId(f"kernels-{next(numbers)}"), AgentId("ann"))


@pytest.fixture(scope="module")
def mortal() -> Iterator[NatsServer]:
    with NatsServer() as server:
        yield server


@asynccontextmanager
async def kernel_at(path: Path, nats_url: str) -> AsyncGenerator[Kernel]:
    """A kernel with an engine, a bus and loops of its own, as another process would have."""
    engine = SqliteEngine(path)
    await engine.open()
    bus = NatsBus(nats_url)
    assert await bus.open(10)
    kernel = Kernel(store=SqliteTurns(engine), bus=bus)
    await kernel.listen()
    tasks = [asyncio.ensure_future(loop()) for _, loop in kernel.loops]
    try:
        yield kernel
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await bus.close()
        await engine.close()


class Pair:
    """One kernel where messages come in, one where a worker is."""

    def __init__(self, front: Kernel, back: Kernel, key: AgentKey) -> None:
        self.front, self.back, self.key = front, back, key
        self.revoked: asyncio.Queue[Fence] = asyncio.Queue()

    async def enqueue(self) -> TurnId:
        command = Enqueue(key=self.key, type=MessageType.TURN, payload=Json("{}"))
        return (await self.front.enqueue(command)).turn_id

    async def parked(self, seconds: float = 30.0) -> asyncio.Task[list[Grant]]:
        """A worker that waits for a turn, so long that only its patience could fail."""
        worker = await self.back.open_worker([self.key], self.revoked.put_nowait)
        claiming = asyncio.create_task(self.back.claim(worker, 1, seconds))
        berth = self.back.dock.berth(worker)
        await eventually(lambda: berth.parked > 0, "the worker never came to rest")
        return claiming

    async def deliver(self, grant: Grant) -> None:
        await self.back.deliver(Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=Json('"done"')))


@asynccontextmanager
async def pair_at(path: Path, url: str, key: AgentKey) -> AsyncGenerator[Pair]:
    async with AsyncExitStack() as stack:
        front = await stack.enter_async_context(kernel_at(path, url))
        back = await stack.enter_async_context(kernel_at(path, url))
        await front.register(key)
        yield Pair(front, back, key)


async def test_a_turn_enqueued_here_starts_there_at_once(tmp_path: Path, nats_url: str, key: AgentKey) -> None:
    async with pair_at(tmp_path / "turns.db", nats_url, key) as pair:
        claiming = await pair.parked()
        turn_id = await pair.enqueue()
        async with asyncio.timeout(PROMPTLY_SECONDS):
            (grant,) = await claiming
        assert grant.turn.turn_id == turn_id


async def test_who_waits_here_is_woken_by_the_end_there(tmp_path: Path, nats_url: str, key: AgentKey) -> None:
    async with pair_at(tmp_path / "turns.db", nats_url, key) as pair:
        claiming = await pair.parked()
        turn_id = await pair.enqueue()
        waiting = asyncio.create_task(pair.front.deliverables.wait(key[0], turn_id, 30.0))
        (grant,) = await claiming
        assert not waiting.done()
        await pair.deliver(grant)
        async with asyncio.timeout(PROMPTLY_SECONDS):
            deliverable = await waiting
        assert deliverable is not None
        assert deliverable.result == '"done"'


async def test_a_turn_stopped_here_is_taken_from_its_worker_there(tmp_path: Path, nats_url: str, key: AgentKey) -> None:
    async with pair_at(tmp_path / "turns.db", nats_url, key) as pair:
        claiming = await pair.parked()
        turn_id = await pair.enqueue()
        (grant,) = await claiming
        stopped = await pair.front.stop(key[0], turn_id, reason="enough", actor="ann")
        assert stopped.stopped
        async with asyncio.timeout(PROMPTLY_SECONDS):
            assert await pair.revoked.get() == fence_of(grant)
        with pytest.raises(StaleEpoch):
            await pair.deliver(grant)


async def test_steps_that_are_taken_there_are_heard_here(tmp_path: Path, nats_url: str, key: AgentKey) -> None:
    heard: asyncio.Queue[Event] = asyncio.Queue()
    async with pair_at(tmp_path / "turns.db", nats_url, key) as pair:
        await pair.front.bus.subscribe(subject(key[0], Channel.EVT, "agent", "*", "step"), heard.put)
        claiming = await pair.parked()
        turn_id = await pair.enqueue()
        (grant,) = await claiming
        await pair.back.step(fence_of(grant), "one", Json("1"))
        call = ToolCall(ToolCallId("c1"), "search", Json("{}"))
        await pair.back.suspend(Suspend(fence=fence_of(grant), calls=(call,)))
        await pair.front.report(key[0], turn_id, call.call_id, status=WaitStatus.SUCCESS, result=Json("1"))
        async with asyncio.timeout(PROMPTLY_SECONDS):
            told = [from_json((await heard.get()).payload) for _ in range(3)]
        by_the_worker = [one["phase"] for one in told if one["phase"] != "resumed"]
        assert by_the_worker == ["stored", "suspended"], "events of one publisher arrive in order"
        assert {one["agent_turn_id"] for one in told} == {turn_id}


async def test_without_the_bus_a_worker_looks_for_itself(
    tmp_path: Path, mortal: NatsServer, key: AgentKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homeostat.kernel.workers.SAFETY_POLL_SECONDS", 0.2)
    monkeypatch.setattr("homeostat.kernel.deliverables.SAFETY_POLL_SECONDS", 0.2)
    async with pair_at(tmp_path / "turns.db", mortal.url, key) as pair:
        claiming = await pair.parked()
        await asyncio.to_thread(mortal.kill)
        try:
            turn_id = await pair.enqueue()
            async with asyncio.timeout(PROMPTLY_SECONDS):
                (grant,) = await claiming
            assert grant.turn.turn_id == turn_id
            waiting = asyncio.create_task(pair.front.deliverables.wait(key[0], turn_id, 30.0))
            await pair.deliver(grant)
            async with asyncio.timeout(PROMPTLY_SECONDS):
                assert await waiting is not None
            second = await pair.enqueue()
            (grant,) = await pair.back.claim(grant.worker_id, 1, 30.0)
            await pair.front.stop(key[0], second, reason="enough", actor="ann")
            with pytest.raises(StaleEpoch):
                await pair.deliver(grant)
        finally:
            await asyncio.to_thread(mortal.start)


async def test_what_was_announced_while_the_bus_was_away_is_heard_when_it_is_back(
    tmp_path: Path, mortal: NatsServer, key: AgentKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("homeostat.kernel.workers.SAFETY_POLL_SECONDS", 0.2)
    async with pair_at(tmp_path / "turns.db", mortal.url, key) as pair:
        claiming = await pair.parked()
        await asyncio.to_thread(mortal.kill)
        turn_id = await pair.enqueue()
        (grant,) = await claiming
        waiting = asyncio.create_task(pair.front.deliverables.wait(key[0], turn_id, 60.0))
        await pair.deliver(grant)
        assert not waiting.done()
        await asyncio.to_thread(mortal.start)
        async with asyncio.timeout(2 * PROMPTLY_SECONDS):
            assert await waiting is not None


# --- several processes that would all take a turn ------------------------------------------------------------


class Crew:
    """One kernel where messages come in, and several with a worker that would take any of them."""

    def __init__(self, front: Kernel, backs: list[Kernel], key: AgentKey) -> None:
        self.front, self.backs, self.key = front, backs, key
        self.served: asyncio.Queue[tuple[Kernel, Grant]] = asyncio.Queue()
        self.workers: dict[Kernel, WorkerId] = {}

    async def work(self, back: Kernel) -> None:
        self.workers[back] = worker = await back.open_worker([self.key], lambda _: None)
        while True:
            for grant in await back.claim(worker, 1, 30.0):
                await back.deliver(Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=Json('"done"')))
                self.served.put_nowait((back, grant))

    async def turn(self) -> Kernel:
        """Have one turn done; returns by whom."""
        message = Enqueue(key=self.key, type=MessageType.TURN, payload=Json("{}"))
        _, deliverable = await self.front.ask(message, 30.0)
        assert deliverable is not None
        back, grant = await self.served.get()
        assert grant.turn.turn_id == deliverable.turn_id
        return back

    def at_rest(self) -> bool:
        """Whether all wait to be rung at: who still tries for a turn that another had may come first for the next."""
        return all(back.dock.berth(worker).parked > 0 for back, worker in self.workers.items())


@asynccontextmanager
async def crew_at(
    path: Path, url: str, key: AgentKey, count: int
) -> AsyncGenerator[tuple[Crew, dict[Kernel, AsyncExitStack]]]:
    async with AsyncExitStack() as stack:
        front = await stack.enter_async_context(kernel_at(path, url))
        await front.register(key)
        ends: dict[Kernel, AsyncExitStack] = {}
        crew = Crew(front, [], key)
        for _ in range(count):
            own = await stack.enter_async_context(AsyncExitStack())
            back = await own.enter_async_context(kernel_at(path, url))
            task = asyncio.create_task(crew.work(back))
            own.push_async_callback(_ended, task)
            await eventually(lambda back=back: back.dock.hosts(key), "the worker never came")
            crew.backs.append(back)
            ends[back] = own
        yield crew, ends


async def _ended(task: "asyncio.Task[None]") -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_whoever_had_the_last_turn_has_the_next_and_nobody_races_for_it(
    tmp_path: Path, nats_url: str, key: AgentKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bell, "RING_AT_ONE_SECONDS", 5.0)  # a slow machine is no process that does not come
    async with crew_at(tmp_path / "turns.db", nats_url, key, 3) as (crew, _):
        before, first = None, await crew.turn()
        while first is not before:  # everybody comes for the first one, and may yet be rung at for the second
            before, first = first, await crew.turn()
        heard = [kernel for kernel in (crew.front, *crew.backs) if kernel is not first]
        await eventually(
            lambda: all(kernel.bell.last_served(key) is not None for kernel in heard), "nobody heard who served"
        )
        await eventually(crew.at_rest, "somebody never came to rest")
        others = [back for back in crew.backs if back is not first]
        tries = sum(back.flusher.commits + back.flusher.conflicts for back in others)
        assert [await crew.turn() for _ in range(5)] == [first] * 5
        more = sum(back.flusher.commits + back.flusher.conflicts for back in others) - tries
        assert more < 5  # who races tries for every turn; a sweep of its own may come in between


async def test_another_comes_when_the_one_that_was_rung_at_is_gone(
    tmp_path: Path, nats_url: str, key: AgentKey
) -> None:
    async with crew_at(tmp_path / "turns.db", nats_url, key, 2) as (crew, ends):
        first = await crew.turn()
        await eventually(lambda: crew.front.bell.last_served(key) is not None, "nobody heard who served")
        await ends[first].aclose()
        async with asyncio.timeout(PROMPTLY_SECONDS):
            assert await crew.turn() is not first
