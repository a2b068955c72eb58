"""A worker elsewhere, whichever server it asks, is told what is its own and what is not."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.app.local_turns import LocalTurns
from homeostat.app.sessions import RemoteSession, WorkerSessions
from homeostat.core.codec import NULL
from homeostat.core.errors import StoreUnavailable
from homeostat.core.ids import TurnId
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.turn import Grant
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence, fence_of
from homeostat.core.records.writes import Saved, Writes
from homeostat.kernel.kernel import Kernel
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk, key_of
from homeostat.testing.kernels import running_kernel
from homeostat.testing.memory import MemoryTurns

LEASE_SECONDS = 9.0
PATIENCE_SECONDS = 10.0
ANN = key_of("a")


@dataclass
class Server:
    """One of several at a store, with one worker's session."""

    kernel: Kernel
    sessions: WorkerSessions
    session: RemoteSession

    async def begin(self, desk: Desk) -> Grant:
        await self.kernel.enqueue(desk.message("a"))
        (grant,) = await self.session.claim(1, 5, [])
        return grant

    async def stop(self, turn_id: TurnId) -> None:
        await self.kernel.stop(ANN[0], turn_id, reason="enough", actor="operator")
        await self.kernel.relay.tick()


@asynccontextmanager
async def two(desk: Desk, clock: ManualClock, *, bus: LocalBus | None = None) -> AsyncGenerator[tuple[Server, Server]]:
    """Two servers behind one address, at which one worker is known; without a bus neither hears of the other."""
    async with (
        running_kernel(desk.store, bus=bus, clock=clock, lease_seconds=LEASE_SECONDS) as here,
        running_kernel(desk.store, bus=bus, clock=clock, lease_seconds=LEASE_SECONDS, seed=2) as there,
    ):
        servers: list[Server] = []
        for kernel in (here, there):
            await kernel.listen()
            sessions = WorkerSessions(kernel, LocalTurns(kernel))
            worker_id = servers[0].session.worker_id if servers else None
            servers.append(Server(kernel, sessions, (await sessions.open([ANN], worker_id, []))[0]))
        yield servers[0], servers[1]


async def test_a_grant_that_is_given_again_has_stored_steps_to_be_read() -> None:
    """The worker may have had it, worked on it, and forgotten: then nothing may be done twice."""
    desk = Desk("a")
    async with running_kernel(desk.store, clock=ManualClock(), lease_seconds=LEASE_SECONDS) as kernel:
        session, _ = await WorkerSessions(kernel, LocalTurns(kernel)).open([ANN], None, [])
        await kernel.enqueue(desk.message("a"))
        (grant,) = await session.claim(1, 5, [])
        assert grant.fresh
        await session.local.step(grant, "charge", NULL)
        (again,) = await session.claim(1, 0, [])
        assert (again.epoch, again.fresh) == (grant.epoch, False)
        assert "charge" in (await session.local.hydrate(again)).steps


# --- a store that was away --------------------------------------------------------------------------------------------


class Away(MemoryTurns):
    """Sometimes it cannot be reached."""

    away = False

    async def save(self, writes: Writes) -> Saved:
        if self.away:
            raise StoreUnavailable(problem="no answer")
        return await super().save(writes)


async def outage(store: Away, clock: ManualClock, beat: Awaitable[object]) -> None:
    """A beat that does not get through, at the end of a lease without one."""
    store.away = True
    clock.advance(LEASE_SECONDS + 0.1)
    with pytest.raises(StoreUnavailable):
        await beat
    store.away = False


@pytest.mark.parametrize("named", [True, False])
async def test_a_turn_that_nobody_took_while_the_store_was_away_is_still_its_workers(*, named: bool) -> None:
    """Whether it names epochs or, as old ones do, turns alone."""
    store, clock = Away(), ManualClock()
    desk = Desk("a", store=store)
    async with two(desk, clock) as (here, _):
        fence = fence_of(await here.begin(desk))
        held: tuple[list[str], list[Fence]] = ([], [fence]) if named else ([fence.turn_id], [])
        await outage(store, clock, here.session.renew(0, *held))
        for _ in range(2):
            assert await here.session.renew(0, *held) == []
            await here.kernel.watchdog.tick()
        assert (desk.head("a").status, desk.head("a").losses) == (HeadStatus.RUNNING, 0)
        await here.stop(fence.turn_id)
        assert await here.session.renew(0, *held) == [fence]


@pytest.mark.parametrize("named", [True, False])
async def test_a_turn_that_another_took_while_the_store_was_away_is_revoked(*, named: bool) -> None:
    store, clock = Away(), ManualClock()
    desk = Desk("a", store=store)
    async with two(desk, clock) as (here, there):
        fence = fence_of(await here.begin(desk))
        held: tuple[list[str], list[Fence]] = ([], [fence]) if named else ([fence.turn_id], [])
        await outage(store, clock, here.session.renew(0, *held))
        await there.kernel.watchdog.tick()
        assert await here.session.renew(0, *held) == [fence]


async def test_a_turn_that_its_worker_let_go_while_the_store_was_away_goes_back_at_once() -> None:
    store, clock = Away(), ManualClock()
    desk = Desk("a", store=store)
    async with two(desk, clock) as (here, _):
        fence = fence_of(await here.begin(desk))
        await outage(store, clock, here.session.renew(0, [], [fence]))
        assert await here.session.renew(0, [], []) == []
        assert (desk.head("a").status, desk.head("a").losses) == (HeadStatus.DISPATCHED, 0)


async def test_a_turn_that_a_worker_at_the_store_let_go_goes_back_with_its_next_beat() -> None:
    store, clock = Away(), ManualClock()
    desk = Desk("a", store=store)
    revoked: list[Fence] = []
    async with running_kernel(store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        session = await LocalTurns(kernel).open([ANN], revoked.append)
        await kernel.enqueue(desk.message("a"))
        (grant,) = await session.claim(1, 5)
        await outage(store, clock, session.renew())
        assert revoked == [fence_of(grant)]
        await session.renew()
        assert (desk.head("a").status, desk.head("a").losses) == (HeadStatus.DISPATCHED, 0)
        (again,) = await session.claim(1, 5)
        await session.deliver(again, status=Outcome.SUCCESS, result=NULL)


# --- two servers behind one address ----------------------------------------------------------------------------------


async def test_a_beat_hears_of_a_turn_that_another_server_granted() -> None:
    desk, clock = Desk("a"), ManualClock()
    async with two(desk, clock) as (here, there):
        grant = await here.begin(desk)
        fence = fence_of(grant)
        assert await there.session.renew(0, [], [fence]) == []
        await here.stop(fence.turn_id)
        for _ in range(4):
            assert await there.session.renew(0, [], [fence]) == [fence], "however often it asks"
            clock.advance(LEASE_SECONDS / 3)
        clock.advance(LEASE_SECONDS)
        assert await there.session.renew(0, [], []) == []


async def test_a_beat_that_is_held_open_hears_at_once_of_a_turn_that_another_server_granted() -> None:
    """Whether the stop came to the server that granted it or to the one that holds the beat open, or before a beat."""
    for stopped_here in (True, False):
        for beaten in (True, False):
            desk, clock, bus = Desk("a"), ManualClock(), LocalBus()
            async with two(desk, clock, bus=bus) as (here, there):
                named: list[Fence] = []
                beat = asyncio.create_task(there.session.renew(PATIENCE_SECONDS, [], named))
                fence = fence_of(await here.begin(desk))
                if beaten:
                    beat.cancel()
                    named.append(fence)
                    await here.session.renew(0, [], named)
                    beat = asyncio.create_task(there.session.renew(PATIENCE_SECONDS, [], named))
                for _ in range(20):
                    await asyncio.sleep(0)
                assert not beat.done()
                await (here if stopped_here else there).stop(fence.turn_id)
                async with asyncio.timeout(PATIENCE_SECONDS / 2):
                    assert await beat == [fence]


async def test_a_grant_that_a_worker_does_not_name_yet_is_on_its_way_to_it() -> None:
    desk, clock = Desk("a"), ManualClock()
    async with two(desk, clock) as (here, there):
        grant = await here.begin(desk)
        assert await there.session.renew(0, [], []) == []
        assert await there.session.renew(0, [], [fence_of(grant)]) == []
        assert desk.head("a").status is HeadStatus.RUNNING


async def test_a_turn_that_was_granted_anew_is_not_taken_for_the_one_that_was_lost() -> None:
    """Whether the worker names epochs or, as old ones do, turns alone; and its beats do not come one upon the other."""
    desk, clock, bus = Desk("a"), ManualClock(), LocalBus()
    async with two(desk, clock, bus=bus) as (here, there):
        old = await here.begin(desk)
        assert await there.session.renew(0, [], [fence_of(old)]) == []
        await here.kernel.preempt(ANN, old.turn.turn_id)
        await here.kernel.relay.tick()
        (new,) = await here.session.claim(1, 5, [])
        assert new.turn.turn_id == old.turn.turn_id
        assert await there.session.renew(0, [], [fence_of(old)]) == [fence_of(old)]
        assert await there.session.renew(0, [], [fence_of(new)]) == []
        there.session.revoke(fence_of(old))  # word of it that comes late
        assert await there.session.renew(0, [new.turn.turn_id]) == []
        await there.session.local.deliver(new, status=Outcome.SUCCESS, result=NULL)


async def test_what_a_worker_that_comes_again_holds_no_longer_is_told_each_time() -> None:
    """Its first answer may have been lost."""
    desk, clock = Desk("a"), ManualClock()
    async with two(desk, clock) as (here, there):
        fence = fence_of(await here.begin(desk))
        worker_id = fence.worker_id
        assert (await there.sessions.open([ANN], worker_id, [fence]))[1] == []
        await here.stop(fence.turn_id)
        for _ in range(2):
            assert (await there.sessions.open([ANN], worker_id, [fence]))[1] == [fence]
        assert (await there.sessions.open([ANN], worker_id, []))[1] == []


async def test_what_a_worker_wrote_itself_is_answered_by_what_it_wrote() -> None:
    desk, clock = Desk("a"), ManualClock()
    async with two(desk, clock) as (here, there):
        grant = await here.begin(desk)
        fence = fence_of(grant)
        await there.session.renew(0, [], [fence])
        await there.session.local.deliver(grant, status=Outcome.SUCCESS, result=NULL)
        there.session.ended(fence.turn_id, fence.epoch)
        assert await there.session.renew(0, [], []) == []
        assert await there.session.renew(0, [], [fence]) == [fence], "it still works on it"
