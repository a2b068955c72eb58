"""Where workers wait: who gets a turn, who gives it back, and what a late word may not undo."""

import asyncio

import pytest
from msgspec.structs import replace

from homeostat.core.codec import Json
from homeostat.core.errors import StoreUnavailable, WorkerUnknown
from homeostat.core.ids import WorkerId
from homeostat.core.limits import LEASE_SECONDS
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.turn import Grant, MessageType
from homeostat.core.records.work import Fence, fence_of
from homeostat.core.records.writes import Saved, Writes
from homeostat.kernel.commands import Enqueue
from homeostat.kernel.dock import Dock
from homeostat.kernel.kernel import Kernel
from homeostat.testing.desk import Desk, key_of
from homeostat.testing.kernels import running_kernel
from homeostat.testing.memory import MemoryTurns

ONE, TWO = WorkerId("wrk_1"), WorkerId("wrk_2")


def ignore(_: Fence) -> None: ...


class Slow(MemoryTurns):
    """A store whose saves can be held up, and can be made to fail."""

    def __init__(self) -> None:
        super().__init__()
        self.begun = asyncio.Event()
        self.go = asyncio.Event()
        self.go.set()
        self.fails = False

    async def save(self, writes: Writes) -> Saved:
        self.begun.set()
        await self.go.wait()
        if self.fails:
            raise StoreUnavailable(problem="down")
        return await super().save(writes)

    def hold(self) -> None:
        self.begun.clear()
        self.go.clear()


def turn(agent: str) -> Enqueue:
    return Enqueue(key=key_of(agent), type=MessageType.TURN, payload=Json("{}"))


async def parked(kernel: Kernel, worker_id: WorkerId, limit: int = 1) -> asyncio.Task[list[Grant]]:
    """A worker that waits for turns."""
    task: asyncio.Task[list[Grant]] = asyncio.ensure_future(kernel.claim(worker_id, limit, 60.0))
    await asyncio.sleep(0)
    assert kernel.dock.berth(worker_id).parked == limit
    return task


def test_parked_workers_take_turns() -> None:
    dock = Dock()
    for worker_id in (ONE, TWO):
        dock.open(worker_id, [key_of("a")], ignore).parked = 2
    taken = [dock.take(key_of("a")) for _ in range(5)]
    assert [berth.worker_id if berth else None for berth in taken] == [ONE, TWO, ONE, TWO, None]
    assert dock.take(key_of("b")) is None


def test_a_worker_is_known_until_it_leaves() -> None:
    dock = Dock()
    dock.open(ONE, [key_of("a")], ignore)
    assert dock.hosts(key_of("a"))
    assert dock.close(ONE) is not None
    assert not dock.hosts(key_of("a"))
    assert dock.close(ONE) is None
    with pytest.raises(WorkerUnknown):
        dock.berth(ONE)


def test_a_late_revocation_leaves_a_newer_grant_alone() -> None:
    told: list[Fence] = []
    dock = Dock()
    berth = dock.open(ONE, [key_of("a")], told.append)
    old = Desk("a").begin("a", ONE)
    new = replace(old, epoch=old.epoch + 1)
    dock.grant(berth, new)
    dock.revoke(fence_of(old))
    assert berth.granted == [new]
    dock.revoke(fence_of(new))
    assert berth.granted == []
    assert told == [fence_of(old), fence_of(new)]


async def test_a_turn_is_granted_in_the_commit_that_wrote_it() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        worker = await kernel.open_worker([key_of("a")], ignore)
        waiting = await parked(kernel, worker)
        commits = kernel.flusher.commits
        accepted = await kernel.enqueue(turn("a"))
        assert kernel.flusher.commits == commits + 1
        assert desk.head("a").status is HeadStatus.RUNNING
        (grant,) = await asyncio.wait_for(waiting, 5.0)
        assert grant.turn.turn_id == accepted.turn_id


async def test_a_place_that_was_reserved_in_vain_is_not_given_away_when_nobody_waits_in_it() -> None:
    store = Slow()
    desk = Desk("a", "b", store=store)
    async with running_kernel(store) as kernel:
        worker = await kernel.open_worker([key_of("a"), key_of("b")], ignore)
        waiting = await parked(kernel, worker)
        store.hold()
        store.fails = True
        lost = asyncio.ensure_future(kernel.enqueue(turn("a")))
        await store.begun.wait()
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        store.go.set()
        with pytest.raises(StoreUnavailable):
            await lost
        store.fails = False
        await kernel.enqueue(turn("b"))
        assert desk.head("b").status is HeadStatus.DISPATCHED, "its worker is busy elsewhere"


async def test_a_turn_granted_to_a_worker_that_left_meanwhile_goes_back_unharmed() -> None:
    store = Slow()
    desk = Desk("a", store=store)
    async with running_kernel(store) as kernel:
        worker = await kernel.open_worker([key_of("a")], ignore)
        waiting = await parked(kernel, worker)
        store.hold()
        enqueued = asyncio.ensure_future(kernel.enqueue(turn("a")))
        await store.begun.wait()
        leaving = asyncio.ensure_future(kernel.close_worker(worker))
        await asyncio.sleep(0)
        store.go.set()
        await asyncio.gather(enqueued, leaving, waiting, return_exceptions=True)
        await kernel.register(key_of("b"))
        assert desk.head("a").status is HeadStatus.DISPATCHED
        assert desk.head("a").losses == 0


async def test_a_turn_claimed_for_a_worker_that_left_meanwhile_goes_back_unharmed() -> None:
    store = Slow()
    desk = Desk("a", store=store)
    desk.enqueue("a")
    async with running_kernel(store) as kernel:
        worker = await kernel.open_worker([key_of("a")], ignore)
        store.hold()
        claiming = asyncio.ensure_future(kernel.claim(worker, 1, 60.0))
        await store.begun.wait()
        claiming.cancel()
        leaving = asyncio.ensure_future(kernel.close_worker(worker))
        await asyncio.sleep(0)
        store.go.set()
        await asyncio.gather(claiming, leaving, return_exceptions=True)
        await kernel.register(key_of("b"))
        assert desk.head("a").status is HeadStatus.DISPATCHED
        assert desk.head("a").losses == 0


async def test_turns_not_collected_go_back_when_their_worker_leaves() -> None:
    desk = Desk("a", "b", "c")
    async with running_kernel(desk.store) as kernel:
        worker = await kernel.open_worker([key_of(agent) for agent in "abc"], ignore)
        kernel.dock.berth(worker).park(3)
        await asyncio.gather(*(kernel.enqueue(turn(agent)) for agent in "abc"))
        assert len(kernel.dock.berth(worker).granted) == 3
        desk.recover("b")
        await kernel.close_worker(worker)
        assert [desk.head(agent).status for agent in "abc"] == [HeadStatus.DISPATCHED] * 3
        assert [desk.head(agent).losses for agent in "abc"] == [0, 1, 0]
        assert desk.store.leases == {}


@pytest.mark.parametrize("lost", [False, True])
async def test_turns_in_work_go_back_with_a_worker_that_leaves_and_are_lost_with_one_that_is(*, lost: bool) -> None:
    desk = Desk("a", "b")
    async with running_kernel(desk.store, clock=desk.clock) as kernel:
        worker = await kernel.open_worker([key_of("a"), key_of("b")], ignore)
        kernel.dock.berth(worker).park(2)
        await asyncio.gather(*(kernel.enqueue(turn(agent)) for agent in "ab"))
        (grant,) = await kernel.claim(worker, 1, 5.0)
        (other,) = kernel.dock.berth(worker).granted
        await kernel.close_worker(worker, lost=lost)
        assert (desk.store.leases == {}) is not lost, "of one that is lost it ends by itself"
        assert desk.head(other.turn.agent_id).status is HeadStatus.DISPATCHED, "it was never collected"
        collected = desk.head(grant.turn.agent_id)
        assert (collected.status, collected.losses) == (HeadStatus.RUNNING if lost else HeadStatus.DISPATCHED, 0)
        if lost:
            desk.clock.advance(LEASE_SECONDS + 0.1)
            await kernel.watchdog.tick()
            assert desk.head(grant.turn.agent_id).losses == 1, "it may be what the worker died of"


async def test_a_claim_that_was_given_up_loses_no_turn() -> None:
    store = Slow()
    desk = Desk("a", store=store)
    desk.enqueue("a")
    async with running_kernel(store) as kernel:
        worker = await kernel.open_worker([key_of("a")], ignore)
        store.hold()
        claiming = asyncio.ensure_future(kernel.claim(worker, 1, 60.0))
        await store.begun.wait()
        claiming.cancel()
        await asyncio.gather(claiming, return_exceptions=True)
        store.go.set()
        (grant,) = await kernel.claim(worker, 1, 5.0)
        assert grant.turn.agent_id == "a"


async def test_a_bell_that_rings_while_a_claim_is_under_way_is_heard() -> None:
    """It may ring for the turn after the one that is being claimed: forgotten, that would wait for the next look."""
    store = Slow()
    desk = Desk("a", store=store)
    desk.enqueue("a")
    async with running_kernel(store) as kernel:
        worker = await kernel.open_worker([key_of("a")], ignore)
        store.hold()
        claiming = asyncio.ensure_future(kernel.claim(worker, 1, 60.0))
        await store.begun.wait()
        kernel.dock.ready(key_of("a"))
        store.go.set()
        await claiming
        assert list(kernel.dock.berth(worker).ready) == [key_of("a")]


async def test_a_worker_that_leaves_ends_its_own_wait() -> None:
    desk = Desk("a")
    async with running_kernel(desk.store) as kernel:
        worker = await kernel.open_worker([key_of("a")], ignore)
        waiting = await parked(kernel, worker)
        await kernel.close_worker(worker)
        with pytest.raises(WorkerUnknown):
            await asyncio.wait_for(waiting, 5.0)
