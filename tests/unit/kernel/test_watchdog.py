"""The safety net: what it finds, what it leaves alone, and what a clock may do to it."""

from typing import Any

import pytest

from homeostat.core.codec import from_json
from homeostat.core.ids import DEFAULT_PROJECT, RunId, WorkerId
from homeostat.core.limits import ATTEMPTS_MAX, RERING_SECONDS, RETENTION_PAUSE_SECONDS, SWEEP_ROWS_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.turn import WaitStatus
from homeostat.core.records.view import Due, Outcome
from homeostat.core.records.work import Fence
from homeostat.kernel.commands import Idempotency, Report
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


async def at_once(kernel: Kernel) -> int:
    """Look as often as the watchdog itself would before it sleeps; returns how often that was."""
    for looks in range(1, 100):
        await kernel.watchdog.tick()
        soonest = kernel.watchdog._next_ms
        if soonest is None or soonest > kernel.clock.now_ms():
            return looks
    raise AssertionError("it never comes to rest")


async def test_however_many_turns_a_dead_worker_held_they_are_taken_without_a_pause() -> None:
    names = [f"a{number}" for number in range(2 * SWEEP_ROWS_MAX + 10)]
    desk = Desk(*names)
    async with running_kernel(desk.store, clock=desk.clock, lease_seconds=LEASE_SECONDS) as kernel:
        for name in names:
            desk.begin(name, "wrk_1")
        desk.store.leases[WorkerId("wrk_1")] = desk.clock.now_ms()
        assert await at_once(kernel) <= 5
        assert {desk.head(name).losses for name in names} == {1}
        assert desk.store.leases == {}


async def test_turns_of_workers_without_a_trace_are_taken_without_a_pause_too() -> None:
    names = [f"a{number}" for number in range(SWEEP_ROWS_MAX + 10)]
    desk = Desk(*names)
    async with running_kernel(desk.store, clock=desk.clock, lease_seconds=LEASE_SECONDS) as kernel:
        for name in names:
            desk.begin(name, f"wrk_{name}")
        desk.store.leases.clear()
        assert await at_once(kernel) <= 4
        assert {desk.head(name).losses for name in names} == {1}


async def test_many_idle_agents_with_mail_are_helped_without_a_pause() -> None:
    names = [f"a{number}" for number in range(SWEEP_ROWS_MAX + 10)]
    desk = Desk(*names)
    async with running_kernel(desk.store, clock=desk.clock) as kernel:
        for name in names:
            kernel.hold_run(RunId("run_1"))
            await kernel.enqueue(desk.message(name, run_id=RunId("run_1")))
        assert await at_once(kernel) == 1, "what is held is not looked at again and again"
        kernel.let_run_go(RunId("run_1"), ())
        assert await at_once(kernel) <= 3
        assert {desk.head(name).status for name in names} == {HeadStatus.DISPATCHED}


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


async def test_a_call_that_a_clock_a_day_ahead_dated_gets_its_time_from_when_it_is_seen() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock) as kernel:
        grant = desk.begin("a")
        clock.jump(24 * HOUR)
        desk.suspend(grant, call("soon", 5.0), call("later", 50.0))
        clock.jump(-24 * HOUR)
        for seconds, over in ((0.0, ()), (4.9, ()), (0.2, ("soon",)), (44.0, ("soon",)), (1.0, ("soon", "later"))):
            clock.advance(seconds)
            await kernel.watchdog.tick()
            for name in ("soon", "later"):
                expected = WaitStatus.TIMEOUT if name in over else WaitStatus.PENDING
                assert desk.wait(grant.turn.turn_id, name).status is expected, (seconds, name)
        assert desk.head("a").status is HeadStatus.DISPATCHED


async def test_the_watchdog_looks_again_when_a_misdated_call_has_had_its_time() -> None:
    desk = Desk("a")
    clock = shared(desk)
    async with running_kernel(desk.store, clock=clock) as kernel:
        grant = desk.begin("a")
        clock.jump(24 * HOUR)
        desk.suspend(grant, call("soon", 5.0))
        clock.jump(-24 * HOUR)
        await kernel.watchdog.tick()
        assert kernel.watchdog._next_ms == clock.now_ms() + 5_000


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


async def test_calls_that_a_turn_left_open_at_its_end_are_closed_and_hide_no_others() -> None:
    desk = Desk("ended", "waiting")
    async with running_kernel(desk.store, clock=desk.clock) as kernel:
        ended = desk.begin("ended", "wrk_1")
        desk.suspend(ended, *[call(f"c{number}", 5.0) for number in range(SWEEP_ROWS_MAX)])
        left = desk.store.pending.copy()
        desk.stop(ended.turn.turn_id)
        desk.store.waits[ended.turn.turn_id].update((wait.call_id, wait) for wait in left.values())
        desk.store.pending.update(left)  # as stores may have them from before
        waiting = desk.begin("waiting", "wrk_2")
        desk.suspend(waiting, call("slow", 6.0))
        desk.clock.advance(7.0)
        assert await at_once(kernel) <= 3
        assert not desk.store.pending
        assert {wait.status for wait in desk.store.waits[ended.turn.turn_id].values()} == {WaitStatus.CANCELLED}
        assert desk.wait(waiting.turn.turn_id, "slow").status is WaitStatus.TIMEOUT
        assert desk.head("ended").status is HeadStatus.IDLE


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


@pytest.mark.parametrize("what", ["turns", "answers"])
async def test_retention_goes_on_until_all_is_forgotten_and_lets_turns_go_first(what: str) -> None:
    many = 3 * SWEEP_ROWS_MAX + 10
    desk = Desk("a")
    store, clock = desk.store, shared(desk)
    async with running_kernel(store, clock=clock, retention_seconds=HOUR) as kernel:
        for number in range(many):
            if what == "turns":
                desk.deliver(desk.begin("a"))
            else:
                await kernel.create_box(DEFAULT_PROJECT, (), None, idempotency=Idempotency(f"k{number}", "f"))
        left = store.turns if what == "turns" else store.answers
        clock.advance(HOUR + RETENTION_EVERY_SECONDS + 1)
        sizes = []
        while left:
            await kernel.watchdog.tick()
            sizes.append(len(left))
            await kernel.watchdog.tick()
            assert len(left) == sizes[-1], "there is a pause between rounds, whatever else there is to do"
            if left:
                soonest = kernel.watchdog._next_ms
                assert soonest is not None
                assert RETENTION_PAUSE_SECONDS * 1000 - 1 <= soonest - clock.now_ms() <= 1000
                clock.advance((soonest - clock.now_ms()) / 1000)
        assert sizes == [many - SWEEP_ROWS_MAX, many - 2 * SWEEP_ROWS_MAX, 10, 0]
        desk.deliver(desk.begin("a"))
        clock.advance(RETENTION_EVERY_SECONDS - 1)
        before = store.swept_up_to
        await kernel.watchdog.tick()
        assert store.swept_up_to == before


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


async def test_a_call_that_is_answered_while_the_watchdog_looks_keeps_its_answer() -> None:
    store = Late()
    desk = Desk("a", store=store)
    async with running_kernel(store, clock=desk.clock) as kernel:
        grant = desk.begin("a")
        desk.suspend(grant, call("slow", 5.0))

        async def answer() -> None:
            desk.report(grant, "slow")
            desk.deliver(desk.claim("a"))

        store.meanwhile = answer
        desk.clock.advance(6.0)
        await kernel.watchdog.tick()
        assert desk.wait(grant.turn.turn_id, "slow").status is WaitStatus.SUCCESS


async def test_two_that_see_a_worker_dead_leave_it_the_lease_it_has_by_then() -> None:
    """One gives the turn back to it, and the other one took it away again: an outage cost two attempts."""
    store = Late()
    desk = Desk("a", store=store)
    clock = shared(desk)
    async with (
        running_kernel(store, clock=clock, lease_seconds=LEASE_SECONDS) as here,
        running_kernel(store, clock=clock, lease_seconds=LEASE_SECONDS, seed=2) as there,
    ):
        desk.enqueue("a")
        worker = await working(here, "a")
        clock.advance(LEASE_SECONDS + 0.1)

        async def recover_and_claim() -> None:
            store.meanwhile = None
            await there.watchdog.tick()
            await here.host(worker, [key_of("a")])  # it looks for itself
            assert await here.claim(worker, 1, 0.0)

        store.meanwhile = recover_and_claim
        await here.watchdog.tick()
        assert worker in store.leases
        for kernel in (there, here):
            await kernel.watchdog.tick()
        assert (desk.head("a").status, desk.head("a").losses) == (HeadStatus.RUNNING, 1)
