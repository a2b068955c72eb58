"""A beat tells which turns were taken away, and is not led astray by what the worker does while it is under way."""

import asyncio
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, NoReturn, TypeVar, cast

import pytest
from msgspec.structs import replace

from homeostat.app.local_turns import LocalSession, LocalTurns
from homeostat.app.sessions import WorkerSessions
from homeostat.core.clock import Millis
from homeostat.core.codec import NULL
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import TurnId, WorkerId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.turn import AgentKey, Grant
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence, fence_of
from homeostat.core.records.writes import Saved, Writes
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk, call, key_of
from homeostat.testing.kernels import running_kernel
from homeostat.testing.memory import MemoryTurns

T = TypeVar("T")

LEASE_SECONDS = 9.0
ANN = key_of("a")


class Slow:
    """A store as one process sees it: answers can be held back once it has done what it was asked for."""

    def __init__(self, store: MemoryTurns) -> None:
        self._store = store
        self.asked = asyncio.Event()
        self.saved = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.may_confirm = asyncio.Event()
        self.may_confirm.set()
        self.silent = False

    lanes = 2

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def held(self, worker_id: WorkerId) -> list[tuple[Fence, Millis]]:
        found = await self._store.held(worker_id)
        self.asked.set()
        await self.may_answer.wait()
        return found

    async def save(self, writes: Writes) -> Saved:
        saved = await self._store.save(writes)
        if writes.steps or writes.cards:
            self.saved.set()
            await self.may_confirm.wait()
            if self.silent:
                self.silent = False
                raise StoreUnavailable(problem="no answer")
        return saved


class Bench:
    """One worker, its store, and another process at the same store."""

    def __init__(self, kernel: Kernel, store: Slow, session: LocalSession, elsewhere: Desk) -> None:
        self._kernel = kernel
        self.store, self.session, self.elsewhere = store, session, elsewhere
        self.revoked: list[Fence] = []

    async def send(self) -> None:
        await self._kernel.enqueue(self.elsewhere.message("a"))

    async def begin(self) -> Grant:
        await self.send()
        (grant,) = await self.session.claim(1, 5)
        return grant

    @asynccontextmanager
    async def beating(self) -> AsyncGenerator[None]:
        """A beat that has asked the store, and gets its answer afterwards."""
        self.store.may_answer.clear()
        self.store.asked.clear()
        beat = asyncio.create_task(self.session.renew())
        await self.store.asked.wait()
        yield
        self.store.may_answer.set()
        await beat

    @asynccontextmanager
    async def unconfirmed(self, work: Coroutine[Any, Any, T]) -> AsyncGenerator[asyncio.Task[T]]:
        """Something that is saved, and not confirmed before the end of this."""
        self.store.may_confirm.clear()
        self.store.saved.clear()
        task = asyncio.create_task(work)
        await self.store.saved.wait()
        yield task
        self.store.may_confirm.set()


@pytest.fixture
async def bench() -> AsyncGenerator[Bench]:
    elsewhere = Desk("a")
    store = Slow(elsewhere.store)
    revoked: list[Fence] = []
    async with running_kernel(cast(TurnStore, store), lease_seconds=LEASE_SECONDS) as kernel:
        session = await LocalTurns(kernel).open([ANN], revoked.append)
        bench = Bench(kernel, store, session, elsewhere)
        bench.revoked = revoked
        yield bench


async def test_a_turn_that_is_stopped_elsewhere_is_revoked(bench: Bench) -> None:
    grant = await bench.begin()
    bench.elsewhere.stop(grant.turn.turn_id)
    await bench.session.renew()
    assert bench.revoked == [fence_of(grant)]


async def test_a_turn_granted_while_the_store_is_asked_is_not_lost(bench: Bench) -> None:
    async with bench.beating():
        grant = await bench.begin()
    assert bench.revoked == []
    await bench.session.deliver(grant, status=Outcome.SUCCESS, result=NULL)


async def test_a_turn_delivered_while_the_store_is_asked_is_not_lost_and_nor_is_the_next(bench: Bench) -> None:
    grant = await bench.begin()
    await bench.send()
    async with bench.beating():
        delivered = await bench.session.deliver(grant, status=Outcome.SUCCESS, result=NULL, claim_next=True)
    assert bench.revoked == []
    assert delivered.next is not None
    await bench.session.deliver(delivered.next, status=Outcome.SUCCESS, result=NULL)


async def test_a_delivery_whose_answer_is_on_its_way_is_not_answered_by_a_revocation(bench: Bench) -> None:
    grant = await bench.begin()
    await bench.send()
    delivery = bench.session.deliver(grant, status=Outcome.SUCCESS, result=NULL, claim_next=True)
    async with bench.unconfirmed(delivery) as delivering:
        await bench.session.renew()
        assert not delivering.done()
        assert bench.revoked == []
    assert (await delivering).next is not None
    await bench.session.renew()
    assert bench.revoked == []


async def test_a_suspension_whose_answer_is_on_its_way_is_not_answered_by_a_revocation(bench: Bench) -> None:
    grant = await bench.begin()
    async with bench.unconfirmed(bench.session.suspend(grant, (call("c1"),))) as suspending:
        await bench.session.renew()
        assert not suspending.done()
    assert not (await suspending).ready
    await bench.session.renew()
    assert bench.revoked == []


async def test_a_delivery_that_got_no_answer_may_be_repeated(bench: Bench) -> None:
    grant = await bench.begin()
    bench.store.silent = True
    with pytest.raises(StoreUnavailable):
        await bench.session.deliver(grant, status=Outcome.SUCCESS, result=NULL)
    await bench.session.renew()
    assert bench.revoked == []
    await bench.session.deliver(grant, status=Outcome.SUCCESS, result=NULL)
    await bench.session.renew()
    assert bench.revoked == []


async def test_a_delivery_whose_caller_hung_up_may_be_repeated(bench: Bench) -> None:
    grant = await bench.begin()
    await bench.send()
    delivery = bench.session.deliver(grant, status=Outcome.SUCCESS, result=NULL, claim_next=True)
    async with bench.unconfirmed(delivery) as delivering:
        delivering.cancel()
        await asyncio.wait([delivering])
        await bench.session.renew()
    while not (following := await bench.session.claim(1, 0.05)):
        await bench.session.renew()
    await bench.session.renew()
    assert bench.revoked == []
    assert (await bench.session.deliver(grant, status=Outcome.SUCCESS, result=NULL)).next is None
    assert following[0].turn.turn_id != grant.turn.turn_id


async def test_a_worker_whose_store_hangs_lets_go_when_its_lease_is_over() -> None:
    """It waited for the answer of its beat as long as the store liked, and worked on beside whoever had its turn."""
    desk = Desk("a")
    store = Slow(desk.store)
    revoked: list[Fence] = []
    async with running_kernel(cast(TurnStore, store), lease_seconds=0.3) as kernel:
        session = await LocalTurns(kernel).open([ANN], revoked.append)
        await kernel.enqueue(desk.message("a"))
        (grant,) = await session.claim(1, 5)
        store.may_answer.clear()
        async with asyncio.timeout(20):
            with pytest.raises(StoreUnavailable):
                await session.renew()
        assert revoked == [fence_of(grant)]
        store.may_answer.set()
        await session.renew()
        (again,) = await session.claim(1, 5)
        assert (again.turn.turn_id, again.epoch) == (grant.turn.turn_id, grant.epoch + 1), "nobody had it meanwhile"


async def test_a_beat_that_comes_back_after_a_lease_elsewhere_has_time_for_its_answer() -> None:
    desk, clock = Desk("a"), ManualClock()
    revoked: list[Fence] = []
    async with running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        session = await LocalTurns(kernel).open([ANN], revoked.append)
        await kernel.enqueue(desk.message("a"))
        await session.claim(1, 5)
        clock.advance(2 * LEASE_SECONDS)
        await session.renew()
        assert revoked == []


async def test_one_that_is_taken_away_while_a_step_is_stored_is_revoked_at_the_next_beat(bench: Bench) -> None:
    grant = await bench.begin()
    async with bench.unconfirmed(bench.session.step(grant, "one", NULL)) as storing:
        bench.elsewhere.stop(grant.turn.turn_id)
        await bench.session.renew()
        assert bench.revoked == [], "what it writes tells it, or the next beat does"
    await storing
    await bench.session.renew()
    assert bench.revoked == [fence_of(grant)]


# --- workers elsewhere -----------------------------------------------------------------------------------------------


async def test_a_turn_that_is_taken_away_on_its_way_to_the_worker_is_revoked_when_it_is_named() -> None:
    desk, clock = Desk("a"), ManualClock()
    async with running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        session, _ = await WorkerSessions(kernel, LocalTurns(kernel)).open([ANN], None, [])
        turn_id = (await kernel.enqueue(desk.message("a"))).turn_id
        (grant,) = await session.claim(1, 5, [])
        desk.stop(turn_id)
        assert await session.renew(0, []) == [fence_of(grant)], "whoever does not know of it drops the word"
        clock.advance(LEASE_SECONDS / 3)
        assert await session.renew(5, [turn_id]) == [fence_of(grant)]
        clock.advance(LEASE_SECONDS)
        assert await session.renew(0, [turn_id]) == [fence_of(grant)], "it still works on it"
        assert await session.renew(0, []) == []


async def test_a_worker_that_goes_on_at_another_server_keeps_its_turn_when_the_first_one_misses_it() -> None:
    desk, clock = Desk("a"), ManualClock()
    async with (
        running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as here,
        running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as there,
    ):
        left = WorkerSessions(here, LocalTurns(here))
        session, _ = await left.open([ANN], None, [])
        turn_id = (await here.enqueue(desk.message("a"))).turn_id
        (grant,) = await session.claim(1, 5, [])
        again, revoked = await WorkerSessions(there, LocalTurns(there)).open(
            [ANN], session.worker_id, [fence_of(grant)]
        )
        assert revoked == []
        for _ in range(4):
            clock.advance(LEASE_SECONDS / 3)
            assert await again.renew(0, [turn_id]) == []
        assert await left.tick() == 1
        await there.watchdog.tick()
        assert (desk.head("a").status, desk.head("a").losses) == (HeadStatus.RUNNING, 0)
        clock.advance(LEASE_SECONDS + 0.1)
        await there.watchdog.tick()
        assert (desk.head("a").status, desk.head("a").losses) == (HeadStatus.DISPATCHED, 1)


async def test_a_turn_that_ended_at_another_server_is_not_given_again_by_the_first_one() -> None:
    desk, clock = Desk("a"), ManualClock()
    async with (
        running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as here,
        running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as there,
    ):
        first, _ = await WorkerSessions(here, LocalTurns(here)).open([ANN], None, [])
        await here.enqueue(desk.message("a"))
        (grant,) = await first.claim(1, 5, [])
        assert await first.claim(1, 0, []) == [replace(grant, fresh=False)], "its answer may have been lost"
        other, _ = await WorkerSessions(there, LocalTurns(there)).open([ANN], first.worker_id, [fence_of(grant)])
        await other.local.deliver(grant, status=Outcome.SUCCESS, result=NULL)
        assert await first.claim(1, 0, []) == []
        assert first.given == {}


async def test_a_worker_that_is_introduced_twice_at_once_has_one_berth(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk("a")

    async def slowly(*_: object) -> list[AgentKey]:
        await asyncio.sleep(0)
        return []

    monkeypatch.setattr(desk.store, "dispatched", slowly)
    async with running_kernel(desk.store) as kernel:
        sessions = WorkerSessions(kernel, LocalTurns(kernel))
        one, two = await asyncio.gather(*(sessions.open([ANN], WorkerId("wrk_1"), []) for _ in range(2)))
        assert one[0] is two[0]
        await sessions.close("wrk_1")
        assert not kernel.dock.hosts(ANN)


async def test_a_worker_that_could_not_be_let_in_leaves_no_berth_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        monkeypatch.setattr(desk.store, "dispatched", away)
        with pytest.raises(StoreUnavailable):
            await WorkerSessions(kernel, LocalTurns(kernel)).open([ANN], WorkerId("wrk_1"), [])
        assert not kernel.dock.hosts(ANN)
        assert not kernel.dock.has(WorkerId("wrk_1"))


async def test_a_worker_that_comes_back_while_the_store_is_away_is_told_later_what_it_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was let in at the second try as one who had been there all the time, and went on with turns of others."""
    desk, lost = Desk("a"), Fence(ANN, TurnId("turn_gone"), 1, WorkerId("wrk_1"))
    async with running_kernel(desk.store) as kernel:
        sessions = WorkerSessions(kernel, LocalTurns(kernel))
        with monkeypatch.context() as patched:
            patched.setattr(desk.store, "held", away)
            with pytest.raises(StoreUnavailable):
                await sessions.open([ANN], WorkerId("wrk_1"), [lost])
        assert not kernel.dock.has(WorkerId("wrk_1"))
        assert (await sessions.open([ANN], WorkerId("wrk_1"), [lost]))[1] == [lost]


async def away(*_: object) -> NoReturn:
    raise StoreUnavailable(problem="it is down")
