"""An agent's line: its order, its front in memory, and what happens when that is used up within one batch."""

import pytest
from msgspec.structs import replace

from homeostat.core.codec import NULL, from_json
from homeostat.core.ids import AgentId, ProjectId, RunId, ToolCallId, TurnId, WorkerId
from homeostat.core.limits import RERING_SECONDS
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.head import Gate
from homeostat.core.records.run import Start
from homeostat.core.records.turn import Grant, MessageType, WaitStatus
from homeostat.core.records.view import Outcome, TurnView
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Claim, Command, Deliver, Dispatch, Preempt, SetGate, Stop
from homeostat.kernel.deliver import enter
from homeostat.testing.desk import Desk, call, key_of
from homeostat.testing.memory import MemoryTurns


def crowded(turns: int, front: int = 2) -> tuple[Desk, list[Stop]]:
    """An agent with one turn active and the others in line, of which memory holds only the first few."""
    desk = Desk("a", store=MemoryTurns(queue_front=front))
    ids = [desk.enqueue("a") for _ in range(turns)]
    return desk, [Stop(turn=desk.store.turns[turn_id], reason="enough", actor="ann") for turn_id in ids]


@pytest.mark.parametrize("stopped", range(1, 8))
def test_stopping_many_in_one_batch_strands_nobody(stopped: int) -> None:
    desk, stops = crowded(8)
    assert all(answer.stopped for answer in desk.all(*stops[:stopped]))
    head = desk.head("a")
    assert head.status is HeadStatus.DISPATCHED
    assert head.turn_id == stops[stopped].turn.turn_id
    assert head.queued == 8 - stopped - 1 == len(desk.store.lines[key_of("a")])


def test_a_message_that_came_in_the_same_batch_is_found_behind_the_front() -> None:
    desk, stops = crowded(3)
    *_, accepted = desk.all(*stops, desk.message("a"))
    assert desk.head("a").turn_id == accepted.turn_id
    assert desk.head("a").queued == 0


def test_stopping_all_leaves_an_idle_agent() -> None:
    desk, stops = crowded(8)
    desk.all(*stops)
    assert desk.head("a").status is HeadStatus.IDLE
    assert desk.head("a").queued == 0
    assert not desk.store.lines[key_of("a")]


def test_a_gate_that_opens_in_the_batch_that_used_up_the_front_dispatches_what_lies_behind() -> None:
    desk, stops = crowded(6)
    desk.all(SetGate(key=key_of("a"), gate=Gate.CLOSED), Preempt(key=key_of("a")))
    assert desk.head("a").queued == 6
    desk.all(*stops[:4], SetGate(key=key_of("a"), gate=Gate.OPEN))
    assert desk.head("a").turn_id == stops[4].turn.turn_id


def test_a_line_that_others_emptied_meanwhile_is_a_lost_race_and_no_error() -> None:
    desk, stops = crowded(6)
    known = {key_of("a"): desk.mailbox("a")}
    desk.all(*stops)
    assert [answer.stopped for answer in desk.decide(*stops[:3], known=known)] == [True] * 3
    assert desk.save().stale == {key_of("a")}


@pytest.mark.parametrize("front", [2, 16])
def test_what_waits_behind_a_killed_run_is_dispatched_once_that_is_stopped(front: int) -> None:
    desk, (active,) = crowded(1, front)
    killed = [desk.do(replace(desk.message("a"), run_id=RunId("run_1"))).turn_id for _ in range(3)]
    other = desk.enqueue("a")
    desk.store.closed_runs.add(RunId("run_1"))
    desk.all(active)
    for turn_id in killed:
        desk.all(Stop(turn=desk.store.turns[turn_id], reason="its run was killed", actor="ann"))
    assert desk.head("a").turn_id == other


def test_the_front_in_memory_never_loses_count() -> None:
    desk, stops = crowded(40, front=16)
    known = {key_of("a"): desk.mailbox("a")}
    for stop in stops[30:35]:
        desk.decide(stop, known=known)
        assert desk.save().ok
        mailbox = desk.plan.mailboxes[key_of("a")]
        assert mailbox is not None
        known = {key_of("a"): mailbox}
    seen: list[int] = []
    while desk.head("a").turn_id is not None:
        seen.append(desk.store.turns[desk.head("a").turn_id or stops[0].turn.turn_id].seq)
        desk.deliver(desk.claim("a"))
    assert seen == [seq for seq in range(1, 41) if not 31 <= seq <= 35]


@pytest.mark.parametrize("held", [1, 2, 3, 150])
def test_a_run_that_is_held_keeps_nobody_behind_it_waiting(held: int) -> None:
    desk = Desk("a", store=MemoryTurns(queue_front=2))
    run = RunId("run_" + "1" * 24)
    for _ in range(held):
        desk.enqueue("a", run_id=run)
    first = desk.head("a").turn_id
    assert first is not None
    desk.store.closed_runs.add(run)
    free = desk.enqueue("a")
    last = desk.enqueue("a")
    desk.do(Stop(turn=desk.store.turns[first], reason="enough", actor="ann"))
    assert desk.head("a").turn_id == free
    desk.do(Stop(turn=desk.store.turns[free], reason="enough", actor="ann"))
    assert desk.head("a").turn_id == last
    desk.do(Stop(turn=desk.store.turns[last], reason="enough", actor="ann"))
    assert (desk.head("a").status, desk.head("a").queued) == (HeadStatus.IDLE, held - 1)


def test_who_is_found_idle_behind_a_held_front_is_helped() -> None:
    desk = Desk("a", store=MemoryTurns(queue_front=2))
    run = RunId("run_" + "1" * 24)
    for _ in range(5):
        desk.enqueue("a", run_id=run)
    desk.do(SetGate(key=key_of("a"), gate=Gate.CLOSED))
    desk.do(Preempt(key=key_of("a")))
    desk.store.closed_runs.add(run)
    free = desk.enqueue("a")
    head = desk.head("a")
    desk.store.heads_by_key[head.key] = replace(head, gate=Gate.OPEN)  # as another process would leave it
    assert desk.do(Dispatch(key=key_of("a"))) is not None
    assert desk.head("a").turn_id == free


def test_whoever_comes_for_a_turn_of_a_run_that_is_over_ends_it_if_nobody_else_has() -> None:
    """Whoever ended the run stops its turns and says why; what came back since has nobody else."""
    desk, run_id = Desk("a"), RunId("run_over")
    left, waits, after = desk.enqueue("a", run_id=run_id), desk.enqueue("a", run_id=run_id), desk.enqueue("a")
    desk.store.closed_runs.add(run_id)
    come = Claim(key=key_of("a"), worker_id=WorkerId("wrk_1"))
    assert desk.do(come) is None
    assert desk.deliverable(left) is None, "it is about to be stopped"
    desk.clock.advance(RERING_SECONDS)
    desk.do(come)
    ended = desk.deliverable(left)
    assert ended is not None
    assert ended.status is Outcome.STOP
    assert from_json(ended.error or "null")["code"] == "stopped"
    assert desk.head("a").turn_id == after, "what stands behind it goes on"
    desk.deliver(desk.claim("a"))
    assert desk.deliverable(waits) is None
    desk.clock.advance(RERING_SECONDS)
    desk.do(Dispatch(key=key_of("a")))
    ended = desk.deliverable(waits)
    assert ended is not None
    assert ended.status is Outcome.STOP
    assert desk.head("a").queued == 0


def test_a_turn_of_a_run_that_is_held_here_is_not_ended_however_long_that_takes() -> None:
    desk, run_id = Desk("a"), RunId("run_held")
    held = desk.enqueue("a", run_id=run_id)
    desk.clock.advance(10 * RERING_SECONDS)
    plan = desk.load("a")
    plan.held_runs = plan.closed_runs = {run_id}
    assert enter(plan, Claim(key=key_of("a"), worker_id=WorkerId("wrk_1")), []) is None
    assert not plan.writes
    assert desk.deliverable(held) is None


def passed_over(desk: Desk) -> Grant:
    """A turn that waits for two calls, put back into a line whose front is of a run that may begin nothing."""
    run = RunId("run_" + "1" * 24)
    active, *_ = [desk.enqueue("a", run_id=run) for _ in range(4)]
    desk.store.closed_runs.add(run)
    desk.enqueue("a")
    desk.stop(active)
    grant = desk.claim("a")
    desk.suspend(grant, call("c1", 30.0), call("c2", 60.0))
    desk.all(SetGate(key=key_of("a"), gate=Gate.CLOSED), Preempt(key=key_of("a")))
    return grant


def test_a_result_for_a_turn_behind_the_front_is_taken_in() -> None:
    desk = Desk("a", store=MemoryTurns(queue_front=2))
    grant = passed_over(desk)
    assert desk.report(grant, "c1", "found").accepted
    assert not desk.report(grant, "c1", "found again").accepted
    assert not desk.report(grant, "c3", "never asked for").accepted
    assert [answer.accepted for answer in desk.all(*[desk.result(grant, "c2")] * 2)] == [True, False]
    desk.do(SetGate(key=key_of("a"), gate=Gate.OPEN))
    mailbox = desk.plan.mailboxes[key_of("a")]
    assert mailbox is not None
    (again,) = desk.decide(Claim(key=key_of("a"), worker_id=WorkerId("wrk_2")), known={key_of("a"): mailbox})
    assert desk.save().ok
    assert again.turn.turn_id == grant.turn.turn_id
    assert [wait.status for wait in again.waits] == [WaitStatus.SUCCESS] * 2
    assert desk.suspend(again, call("c1"), call("c2")).ready


def test_a_turn_behind_the_front_that_is_stopped_waits_for_nothing_more() -> None:
    desk = Desk("a", store=MemoryTurns(queue_front=2))
    grant = passed_over(desk)
    assert desk.stop(grant.turn.turn_id).stopped
    assert {desk.wait(grant.turn.turn_id, name).status for name in ("c1", "c2")} == {WaitStatus.CANCELLED}
    assert not desk.stop(grant.turn.turn_id).stopped
    assert not desk.report(grant, "c1").accepted


def test_a_turn_that_is_put_back_takes_its_place_in_line_and_not_the_first() -> None:
    desk = Desk("a", store=MemoryTurns(queue_front=2))
    run = RunId("run_" + "1" * 24)
    active, *held = [desk.enqueue("a", run_id=run) for _ in range(4)]
    desk.store.closed_runs.add(run)
    passing = desk.enqueue("a")
    desk.stop(active)
    assert desk.head("a").turn_id == passing
    known = {key_of("a"): desk.mailbox("a")}
    desk.store.closed_runs.clear()
    desk.decide(Preempt(key=key_of("a")), known=known)
    assert desk.save().ok
    assert desk.head("a").turn_id == held[0]


def test_what_a_held_run_asks_of_others_waits_in_line() -> None:
    """Whoever works on a turn of it has not heard yet that it is taken away."""
    desk, run = Desk("a", "b"), RunId("run_" + "1" * 24)
    grant = desk.begin("a", run_id=run)
    desk.store.held_runs.add(run)
    asks = {"type": MessageType.JOIN_REQUEST, "source": AgentId("a"), "reply_call_id": ToolCallId("c1")}
    child = desk.message("b", parent_turn_id=grant.turn.turn_id, run_id=run, **asks)
    desk.suspend(grant, call("c1"), children=(child,))
    assert desk.writes.runs == {run: Start.CHILD}, "its gate is asked all the same: it may be over by now"
    assert (desk.head("b").status, desk.head("b").queued) == (HeadStatus.IDLE, 1)
    desk.store.held_runs.clear()
    desk.do(Dispatch(key=key_of("b")))
    assert desk.writes.runs == {run: Start.TURN}
    assert desk.head("b").status is HeadStatus.DISPATCHED


class Moving(MemoryTurns):
    """A store in which something happens just before somebody reads a turn, or just after."""

    before: tuple[Command, ...] = ()
    after: tuple[Command, ...] = ()

    async def turn(self, project: ProjectId, turn_id: TurnId) -> TurnView | None:
        before, self.before = self.before, ()
        self.move(before)
        view = await super().turn(project, turn_id)
        after, self.after = self.after, ()
        self.move(after)
        return view

    def move(self, commands: tuple[Command, ...]) -> None:
        if commands:
            Desk(store=self).all(*commands)


@pytest.mark.parametrize("by", ["a tool", "an agent"])
def test_a_turn_that_is_put_back_while_it_is_looked_for_is_looked_for_again(by: str) -> None:
    store = Moving(queue_front=2)
    desk = Desk("a", "b", store=store)
    run = RunId("run_" + "1" * 24)
    active, *_ = [desk.enqueue("a", run_id=run) for _ in range(4)]
    desk.store.closed_runs.add(run)
    desk.enqueue("a")
    known = {key_of("a"): desk.mailbox("a")}
    desk.stop(active)
    grant = desk.claim("a")
    asks = {"type": MessageType.JOIN_REQUEST, "source": AgentId("a"), "reply_call_id": ToolCallId("c1")}
    children = (desk.message("b", parent_turn_id=grant.turn.turn_id, **asks),) if by == "an agent" else ()
    desk.suspend(grant, call("c1"), children=children)
    brings = desk.result(grant, "c1")
    if children:
        brings = Deliver(fence=fence_of(desk.claim("b")), status=Outcome.SUCCESS, result=NULL)
    store.after = (SetGate(key=key_of("a"), gate=Gate.CLOSED), Preempt(key=key_of("a")))
    desk.decide(brings, known=known)
    assert desk.save().ok
    assert desk.wait(grant.turn.turn_id, "c1").status is WaitStatus.SUCCESS


def test_a_turn_that_comes_to_the_front_while_it_is_looked_for_is_found_there() -> None:
    store = Moving(queue_front=2)
    desk = Desk("a", store=store)
    run = RunId("run_" + "1" * 24)
    active, *_ = [desk.enqueue("a", run_id=run) for _ in range(4)]
    desk.store.closed_runs.add(run)
    desk.enqueue("a")
    desk.stop(active)
    grant = desk.claim("a")
    desk.suspend(grant, call("c1"))
    desk.all(SetGate(key=key_of("a"), gate=Gate.CLOSED), Preempt(key=key_of("a")))
    store.before = (SetGate(key=key_of("a"), gate=Gate.OPEN), Dispatch(key=key_of("a")))
    (answer,) = desk.decide(desk.result(grant, "c1"))
    assert answer.accepted
    assert desk.save().ok
