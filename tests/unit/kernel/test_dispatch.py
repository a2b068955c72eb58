"""Giving an agent its next message, taking an active one away, and who may enter."""

import pytest

from homeostat.core.errors import StaleEpoch
from homeostat.core.ids import WorkerId
from homeostat.core.machines.turn import HEAD, HeadStatus, TurnEvent
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import WaitStatus
from homeostat.core.records.work import fence_of
from homeostat.kernel.claim import claim
from homeostat.kernel.commands import Claim, Dispatch, Preempt, Release, SetGate
from homeostat.kernel.dispatch import preempt, release
from homeostat.testing.desk import Desk, call, key_of

A = key_of("a")


def test_a_claim_is_a_value_when_it_is_lost() -> None:
    desk = Desk("a")
    assert desk.do(Claim(key=A, worker_id=WorkerId("wrk_1"))) is None
    desk.enqueue("a")
    grant = desk.claim("a", "wrk_1")
    assert desk.do(Claim(key=A, worker_id=WorkerId("wrk_2"))) is None
    assert (grant.epoch, grant.fresh) == (desk.head("a").epoch, True)
    assert desk.store.leases == {"wrk_1": desk.plan.lease_end()}


@pytest.mark.parametrize(("gate", "enters"), [(Gate.OPEN, True), (Gate.DRAINING, True), (Gate.CLOSED, False)])
def test_a_draining_agent_may_finish_what_it_began_and_a_closed_one_may_not(gate: Gate, *, enters: bool) -> None:
    desk = Desk("a")
    desk.enqueue("a")
    desk.do(SetGate(key=A, gate=gate))
    plan = desk.load("a")
    assert (claim(plan, Claim(key=A, worker_id=WorkerId("wrk_1"))) is not None) == enters
    assert bool(plan.writes) == enters


def test_a_released_turn_costs_no_attempt_and_fences_its_worker_off() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    plan = desk.load("a")
    assert release(plan, Release(fence=fence_of(grant)))
    head = plan.writes.heads[A][1]
    assert (head.status, head.worker_id, head.losses, head.epoch) == (HeadStatus.DISPATCHED, None, 0, grant.epoch + 1)
    desk.do(Release(fence=fence_of(grant)))
    with pytest.raises(StaleEpoch):
        desk.deliver(grant)
    again = desk.claim("a")
    assert (again.fresh, desk.head("a").starts) == (False, 2)


@pytest.mark.parametrize("state", sorted(HEAD.sources(TurnEvent.PREEMPT)))
def test_a_preempted_turn_goes_back_to_the_front_under_a_new_epoch(state: HeadStatus) -> None:
    desk = Desk("a")
    first = desk.enqueue("a")
    others = [desk.enqueue("a") for _ in range(2)]
    if state is not HeadStatus.DISPATCHED:
        grant = desk.claim("a")
        if state is HeadStatus.SUSPENDED:
            desk.suspend(grant, call("one"))
    assert desk.head("a").status is state
    desk.do(SetGate(key=A, gate=Gate.DRAINING))
    epoch = desk.head("a").epoch
    assert desk.do(Preempt(key=A)) == first
    head = desk.head("a")
    assert (head.status, head.turn_id, head.queued, head.epoch) == (HeadStatus.IDLE, None, 3, epoch + 1)
    assert (head.waiting, head.deadline_ms) == (0, None)
    assert [entry.turn.turn_id for entry in desk.mailbox("a").queue] == [first, *others]
    assert bool(desk.plan.revoked) == (state is HeadStatus.RUNNING)
    desk.do(SetGate(key=A, gate=Gate.OPEN))
    assert desk.head("a").turn_id == first
    if state is HeadStatus.SUSPENDED:
        assert [wait.status for wait in desk.claim("a").waits] == [WaitStatus.PENDING]


def test_preempting_an_idle_agent_does_nothing() -> None:
    desk = Desk("a")
    plan = desk.load("a")
    assert preempt(plan, Preempt(key=A)) is None
    assert not plan.writes


def test_preempting_behind_an_open_gate_dispatches_the_same_turn_again() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.enqueue("a")
    desk.do(Preempt(key=A))
    head = desk.head("a")
    assert (head.status, head.turn_id, head.epoch) == (HeadStatus.DISPATCHED, grant.turn.turn_id, grant.epoch + 2)
    assert head.queued == 1 == len(desk.store.lines[A])


def test_turning_a_gate_where_it_stands_writes_nothing() -> None:
    desk = Desk("a")
    assert desk.do(SetGate(key=A, gate=Gate.CLOSED, reason="sick")) is Gate.OPEN
    assert desk.do(SetGate(key=A, gate=Gate.CLOSED, reason="sick")) is Gate.CLOSED
    assert not desk.writes
    assert desk.do(SetGate(key=A, gate=Gate.CLOSED, reason="very sick")) is Gate.CLOSED
    assert desk.head("a").gate_reason == "very sick"


def test_what_is_dispatched_already_is_not_dispatched_again() -> None:
    desk = Desk("a")
    desk.enqueue("a")
    desk.enqueue("a")
    before = desk.head("a")
    assert desk.do(Dispatch(key=A)) is False
    assert desk.head("a") == before
