"""The safety net: what it finds, what it leaves alone, and what a clock may do to it."""

from typing import Any

import pytest

from homeostat.core.codec import from_json
from homeostat.core.ids import WorkerId
from homeostat.core.limits import ATTEMPTS_MAX, RERING_SECONDS
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.turn import WaitStatus
from homeostat.core.records.view import Due, Outcome
from homeostat.core.records.work import Fence
from homeostat.kernel.commands import Report
from homeostat.kernel.kernel import Kernel
from homeostat.kernel.rules import RULES
from homeostat.kernel.watchdog import RETENTION_EVERY_SECONDS
from homeostat.testing.clock import ManualClock
from homeostat.testing.desk import Desk, call, key_of
from homeostat.testing.kernels import running_kernel
from homeostat.testing.memory import MemoryTurns

LEASE_SECONDS = 9.0
HOUR = 3600.0


def ignore(_: Fence) -> None: ...


def shared(desk: Desk) -> ManualClock:
    """One clock for the desk and the kernel."""
    return desk.clock


async def working(kernel: Kernel, agent: str) -> WorkerId:
    """A worker that has entered an agent's turn."""
    worker = await kernel.open_worker([key_of(agent)], ignore)
    (grant,) = await kernel.claim(worker, 1, 1.0)
    assert grant.worker_id == worker
    return worker


async def test_a_silent_worker_s_turn_is_dispatched_again_under_a_new_epoch() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        desk.enqueue("a")
        await working(kernel, "a")
        epoch = desk.head("a").epoch
        clock.advance(LEASE_SECONDS - 0.1)
        await kernel.watchdog.tick()
        assert desk.head("a").status is HeadStatus.RUNNING
        clock.advance(0.2)
        await kernel.watchdog.tick()
        head = desk.head("a")
        assert (head.status, head.epoch, head.losses) == (HeadStatus.DISPATCHED, epoch + 1, 1)
        assert desk.store.leases == {}


async def test_a_worker_that_beats_keeps_its_turn_however_long_it_takes() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        turn_id = desk.enqueue("a")
        worker = await working(kernel, "a")
        for _ in range(100):
            clock.advance(LEASE_SECONDS / 3)
            await kernel.renew(worker, [turn_id])
            await kernel.watchdog.tick()
        assert desk.head("a").losses == 0
        assert desk.head("a").status is HeadStatus.RUNNING


async def test_attempts_are_bounded_and_the_last_one_ends_in_a_deliverable() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        turn_id = desk.enqueue("a")
        for attempt in range(ATTEMPTS_MAX):
            assert desk.head("a").losses == attempt
            await working(kernel, "a")
            clock.advance(LEASE_SECONDS + 0.1)
            await kernel.watchdog.tick()
        ended = desk.deliverable(turn_id)
        assert ended is not None
        assert ended.status is Outcome.FAILED
        assert from_json(ended.error or "null")["code"] == "attempts_exhausted"
        assert desk.head("a").status is HeadStatus.IDLE


async def test_waits_time_out_at_their_deadline_and_not_before() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock) as kernel:
        grant = desk.begin("a")
        desk.suspend(grant, call("soon", 5.0), call("later", 50.0))
        clock.advance(4.9)
        await kernel.watchdog.tick()
        assert desk.wait(grant.turn.turn_id, "soon").status is WaitStatus.PENDING
        clock.advance(0.2)
        await kernel.watchdog.tick()
        assert desk.wait(grant.turn.turn_id, "soon").status is WaitStatus.TIMEOUT
        assert desk.wait(grant.turn.turn_id, "later").status is WaitStatus.PENDING
        assert desk.head("a").waiting == 1


async def test_ringing_again_writes_nothing_and_moves_no_date() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock) as kernel:
        desk.enqueue("a")
        before = (desk.head("a"), dict(desk.store.turns), dict(desk.store.lines))
        worker = await kernel.open_worker([key_of("a")], ignore)
        kernel.dock.berth(worker).ready.clear()
        for _ in range(50):
            clock.advance(RERING_SECONDS + 1)
            await kernel.watchdog.tick()
            assert await kernel.flusher.tick() == 0, "nothing was asked for behind its back"
        assert (desk.head("a"), dict(desk.store.turns), dict(desk.store.lines)) == before
        assert kernel.flusher.commits == 0
        assert list(kernel.dock.berth(worker).ready) == [key_of("a")]


async def test_a_clock_that_jumped_is_no_proof_that_anybody_died() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        turn_id = desk.enqueue("a")
        worker = await working(kernel, "a")
        await kernel.watchdog.tick()
        for jump in (HOUR, -24 * HOUR, 24 * HOUR):
            clock.jump(jump)
            await kernel.watchdog.tick()
            assert desk.head("a").losses == 0
            clock.advance(LEASE_SECONDS / 3)
            await kernel.watchdog.tick()
            await kernel.renew(worker, [turn_id])
            clock.advance(LEASE_SECONDS / 3)
            await kernel.watchdog.tick()
            assert desk.head("a").status is HeadStatus.RUNNING
            assert desk.head("a").losses == 0


async def test_whoever_did_not_beat_for_a_lease_after_the_jump_is_dead_all_the_same() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        desk.enqueue("a")
        await working(kernel, "a")
        await kernel.watchdog.tick()
        clock.jump(-24 * HOUR)
        await kernel.watchdog.tick()
        clock.advance(LEASE_SECONDS + 0.1)
        await kernel.watchdog.tick()
        assert desk.head("a").status is HeadStatus.DISPATCHED
        assert desk.head("a").losses == 1


async def test_a_turn_whose_worker_has_no_lease_is_taken_at_once_whatever_the_clock_did() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock, lease_seconds=LEASE_SECONDS) as kernel:
        desk.begin("a")
        await kernel.watchdog.tick()
        clock.jump(HOUR)
        desk.store.leases.clear()
        await kernel.watchdog.tick()
        assert desk.head("a").losses == 1


async def test_one_that_cannot_be_timed_out_keeps_no_other_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    desk = Desk("a", "b")
    original = RULES[Report]

    def poisoned(plan: Any, command: Any, followups: Any) -> Any:
        if command.key == key_of("a"):
            raise RuntimeError("nobody thought of this")
        return original(plan, command, followups)

    monkeypatch.setitem(RULES, Report, poisoned)
    async with running_kernel(desk.store, clock=desk.clock) as kernel:
        grants = [desk.begin(agent, f"wrk_{agent}") for agent in "ab"]
        for grant in grants:
            desk.suspend(grant, call("slow", 5.0))
        desk.clock.advance(6.0)
        for _ in range(2):  # it is found again, first of all, and is still nobody else's trouble
            await kernel.watchdog.tick()
        assert [desk.wait(grant.turn.turn_id, "slow").status for grant in grants] == [
            WaitStatus.PENDING,
            WaitStatus.TIMEOUT,
        ]
        assert desk.head("b").status is HeadStatus.DISPATCHED


async def test_what_ended_long_ago_is_forgotten_and_not_before() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock, retention_seconds=HOUR) as kernel:
        desk.deliver(desk.begin("a"))
        open_turn = desk.begin("a").turn.turn_id
        clock.advance(HOUR - 1)
        await kernel.watchdog.tick()
        assert len(desk.store.turns) == 2
        clock.advance(RETENTION_EVERY_SECONDS + 2)
        await kernel.watchdog.tick()
        assert list(desk.store.turns) == [open_turn]


class Late(MemoryTurns):
    """Answers what is due only after something else happened."""

    meanwhile: Any = None

    async def due(self, *args: Any, **kwargs: Any) -> Due:
        found = await super().due(*args, **kwargs)
        if self.meanwhile is not None:
            await self.meanwhile()
        return found


async def test_a_deadline_set_while_the_watchdog_looks_is_not_forgotten() -> None:
    store = Late()
    desk = Desk("a", store=store)
    clock = shared(desk)
    async with running_kernel(store, clock=clock) as kernel:

        async def suspend() -> None:
            kernel.watchdog.expect(clock.now_ms())

        store.meanwhile = suspend
        await kernel.watchdog.tick()
        assert kernel.watchdog._next_ms == clock.now_ms()
