"""What a worker's beat does: it keeps a lease, and hands back what the worker was granted without knowing."""

from homeostat.core.clock import Millis
from homeostat.core.ids import WorkerId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.work import Fence
from homeostat.kernel.commands import Claim, Recover
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk, key_of
from homeostat.testing.kernels import running_kernel
from homeostat.testing.memory import MemoryTurns


async def lost_claim(clock: ManualClock) -> tuple[Desk, WorkerId]:
    """An agent whose turn was granted to a worker that never heard of it."""
    desk = Desk("a", "b")
    desk.clock = clock
    worker = WorkerId("wrk_1")
    for agent in ("a", "b"):
        desk.enqueue(agent)
        desk.do(Claim(key=key_of(agent), worker_id=worker))
    return desk, worker


async def test_a_turn_its_worker_never_heard_of_goes_back_after_a_lease() -> None:
    clock = ManualClock()
    desk, worker = await lost_claim(clock)
    async with running_kernel(desk.store, clock=clock, lease_seconds=9.0) as kernel:
        await kernel.open_worker([key_of("a"), key_of("b")], lambda _: None, worker_id=worker)
        mine = desk.head("b").turn_id
        assert mine is not None
        for _ in range(3):
            await kernel.renew(worker, [mine])
            assert desk.head("a").status is HeadStatus.RUNNING, "its grant may still be on its way"
            clock.advance(3.0)
        await kernel.renew(worker, [mine])
        assert desk.head("a").status is HeadStatus.DISPATCHED
        assert desk.head("a").losses == 0
        assert desk.head("b").status is HeadStatus.RUNNING


async def test_a_wrong_wall_clock_neither_hastens_nor_hinders_it() -> None:
    clock = ManualClock()
    desk, worker = await lost_claim(clock)
    async with running_kernel(desk.store, clock=clock, lease_seconds=9.0) as kernel:
        await kernel.open_worker([key_of("a")], lambda _: None, worker_id=worker)
        await kernel.renew(worker, [])
        clock.jump(86_400)
        await kernel.renew(worker, [])
        assert desk.head("a").status is HeadStatus.RUNNING
        clock.jump(-2 * 86_400)
        clock.advance(9.0)
        await kernel.renew(worker, [])
        assert desk.head("a").status is HeadStatus.DISPATCHED


class Meddler(MemoryTurns):
    """Another process takes a worker's turns between two looks at them."""

    meddle = False

    async def held(self, worker_id: WorkerId) -> list[tuple[Fence, Millis]]:
        found = await super().held(worker_id)
        if self.meddle:
            desk = Desk(store=self)
            for fence, _ in found:
                desk.do(Recover(fence=fence, cause="meddling"))
        return found


async def test_turns_that_others_took_meanwhile_do_not_disturb_a_beat() -> None:
    clock = ManualClock()
    store = Meddler()
    desk = Desk("a", "b", store=store)
    worker = WorkerId("wrk_1")
    grants = [desk.begin(agent, worker) for agent in ("a", "b")]
    async with running_kernel(store, clock=clock, lease_seconds=9.0) as kernel:
        await kernel.open_worker([key_of("a"), key_of("b")], lambda _: None, worker_id=worker)
        await kernel.renew(worker, [])
        clock.advance(9.0)
        store.meddle = True
        await kernel.renew(worker, [])
        assert [desk.head(agent).losses for agent in ("a", "b")] == [1, 1]
        assert [desk.view(grant.turn.turn_id).epoch for grant in grants] == [2, 2]
