"""Suspending, reporting and resuming, rule by rule."""

from typing import Any

import pytest
from msgspec.structs import replace

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import AgentUnknown, DepthExceeded, HomeostatError, InvalidRequest, MalformedPayload
from homeostat.core.ids import AgentId, BoxId, ProjectId, ToolCallId
from homeostat.core.limits import DEPTH_MAX, WAIT_SECONDS_MAX, WAITS_PER_TURN_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.card import CardDraft
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AfterExecution, MessageType, ToolCall, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Enqueue, Preempt, Reported, SetGate, Stop, Suspend
from homeostat.testing.desk import Desk, call, key_of

TERMINATE = AfterExecution.TERMINATE


@pytest.mark.parametrize(
    ("control", "ends"),
    [
        ({"after_execution": "terminate"}, True),
        ({"after_execution": "suspend"}, False),
        ({"after_execution": "nonsense"}, False),
        ({"after_execution": 7}, False),
        ("terminate", False),
    ],
)
def test_a_result_s_control_word_overrides_what_the_call_said(control: object, *, ends: bool) -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("one"))
    desk.report(grant, "one", {"value": 1, "__cg_control": control})
    assert desk.head("a").status is (HeadStatus.IDLE if ends else HeadStatus.DISPATCHED)


def test_a_control_word_counts_however_it_is_spelled() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("one"))
    spelled = Json(r'{"\u005f_cg_control":{"after_execution":"terminate"}}')
    desk.do(replace(desk.result(grant, "one"), result=spelled))
    assert desk.head("a").status is HeadStatus.IDLE


def test_a_turn_resumes_under_a_new_epoch() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("one"))
    desk.report(grant, "one")
    again = desk.claim("a")
    assert again.turn == grant.turn
    assert again.epoch > grant.epoch, "a worker that missed its own suspension would still be believed"


def test_a_terminating_result_is_the_deliverable_although_another_came_last() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("final", after=TERMINATE), call("other"))
    desk.report(grant, "final", {"answer": 42})
    assert desk.head("a").status is HeadStatus.SUSPENDED
    desk.report(grant, "other", {"noise": True})
    ended = desk.deliverable(grant.turn.turn_id)
    assert ended is not None
    assert from_json(ended.result) == {"answer": 42}


def test_a_terminating_result_in_the_same_batch_is_the_deliverable_too() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("final", after=TERMINATE), call("other"))
    desk.all(desk.result(grant, "final", {"answer": 42}), desk.result(grant, "other", {"noise": True}))
    ended = desk.deliverable(grant.turn.turn_id)
    assert ended is not None
    assert from_json(ended.result) == {"answer": 42}


def test_a_failed_terminating_result_ends_the_turn_as_failed_although_another_succeeded_last() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("final", after=TERMINATE), call("other"))
    desk.report(grant, "final", {"why": "no"}, status=WaitStatus.ERROR)
    desk.report(grant, "other")
    ended = desk.deliverable(grant.turn.turn_id)
    assert ended is not None
    assert ended.status is Outcome.FAILED
    assert from_json(ended.result) == {"why": "no"}
    assert '"tool_error"' in (ended.error or "")


@pytest.mark.parametrize(("result", "status"), [({"sum": 5}, Outcome.SUCCESS), ({"nope": 5}, Outcome.FAILED)])
def test_a_terminating_result_has_to_cover_what_was_asked_for(result: object, status: Outcome) -> None:
    desk = Desk("a")
    grant = desk.begin("a", result_fields=to_json([{"name": "sum"}]))
    desk.suspend(grant, call("final", after=TERMINATE))
    desk.report(grant, "final", result)
    ended = desk.deliverable(grant.turn.turn_id)
    assert ended is not None
    assert (ended.status, from_json(ended.result)) == (status, result)
    assert ("result_fields_missing" in (ended.error or "")) is (status is Outcome.FAILED)


def test_a_terminating_result_that_came_while_its_turn_was_put_back_ends_it_when_it_asks_again() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    final = call("final", after=TERMINATE)
    desk.suspend(grant, final)
    desk.do(SetGate(key=grant.turn.key, gate=Gate.CLOSED))
    desk.do(Preempt(key=grant.turn.key))
    assert desk.report(grant, "final", {"answer": 42}).accepted
    desk.do(SetGate(key=grant.turn.key, gate=Gate.OPEN))
    again = desk.suspend(desk.claim("a"), final)
    assert not again.ready, "the turn is over, its worker has nothing more to do"
    ended = desk.deliverable(grant.turn.turn_id)
    assert ended is not None
    assert from_json(ended.result) == {"answer": 42}
    assert desk.head("a").status is HeadStatus.IDLE


def ask(agent: str, call_id: str = "ask", **changes: Any) -> Enqueue:
    said: dict[str, Any] = {"type": MessageType.JOIN_REQUEST, "payload": Json("{}"), "source": AgentId("a"), **changes}
    return Enqueue(key=changes.pop("key", key_of(agent)), reply_call_id=ToolCallId(call_id), **said)


@pytest.mark.parametrize(
    ("calls", "children", "error"),
    [
        ((), (), InvalidRequest),
        ((call("x"), call("x")), (), InvalidRequest),
        ((call("x", 0.0),), (), MalformedPayload),
        ((call("x"), call("y", -1.0)), (), MalformedPayload),
        ((call("x", float("nan")),), (), MalformedPayload),
        ((call("x", WAIT_SECONDS_MAX + 1),), (), MalformedPayload),
        (tuple(call(f"x{n}") for n in range(WAITS_PER_TURN_MAX + 1)), (), InvalidRequest),
        ((call("\ud800"),), (), MalformedPayload),
        ((call("ask"),), (ask("b"), ask("a")), InvalidRequest),
        ((call("ask"),), (ask("b"), ask("nobody")), AgentUnknown),
        ((call("ask"),), (ask("b"), ask("b", depth=DEPTH_MAX + 1)), DepthExceeded),
        ((call("ask"),), (ask("b"), ask("b", type=MessageType.UI_ACTION)), InvalidRequest),
        ((call("ask"),), (ask("b"), ask("b", output_box_id=BoxId("box_1"))), InvalidRequest),
        ((call("ask"),), (ask("b"), replace(ask("b"), key=(ProjectId("other"), AgentId("b")))), InvalidRequest),
    ],
)
def test_a_suspension_that_is_refused_leaves_nothing_behind(
    calls: tuple[ToolCall, ...], children: tuple[Enqueue, ...], error: type[HomeostatError]
) -> None:
    desk = Desk("a", "b")
    grant = desk.begin("a")
    note = CardDraft("note", Json("1"))
    (answer,) = desk.decide(Suspend(fence=fence_of(grant), calls=calls, children=children, cards=(note,)))
    assert isinstance(answer, error)
    assert not desk.writes
    assert not desk.plan.events


def test_two_turns_of_one_agent_can_be_asked_for_at_once() -> None:
    desk = Desk("a", "b")
    grant = desk.begin("a")
    desk.suspend(grant, call("one"), call("two"), children=(ask("b", "one"), ask("b", "two")))
    assert desk.head("b").status is HeadStatus.DISPATCHED
    assert desk.head("b").queued == 1
    assert desk.head("a").waiting == 2


def test_a_turn_that_suspends_and_is_stopped_in_one_flush_leaves_no_wait_open() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.all(
        Suspend(fence=fence_of(grant), calls=(call("one"),)),
        Stop(turn=grant.turn, reason="enough", actor="ann"),
    )
    assert [wait.status for wait in desk.store.waits[grant.turn.turn_id].values()] == [WaitStatus.CANCELLED]


@pytest.mark.parametrize("status", [WaitStatus.PENDING, WaitStatus.CANCELLED])
def test_a_report_says_how_a_call_ended(status: WaitStatus) -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("one"))
    with pytest.raises(InvalidRequest):
        desk.report(grant, "one", status=status)
    assert desk.wait(grant.turn.turn_id, "one").status is WaitStatus.PENDING
    assert len(desk.cards(grant.turn.turn_id)) == 1


def test_late_repeated_and_foreign_results_are_acknowledged_and_change_nothing() -> None:
    desk = Desk("a", "b")
    grant, other = desk.begin("a"), desk.begin("b")
    desk.suspend(grant, call("one"), call("two"))
    desk.suspend(other, call("one"))
    assert desk.report(grant, "one", {"n": 1}).accepted
    version = desk.head("a").version
    for late in (
        desk.result(grant, "one", {"n": 2}),
        desk.result(grant, "three"),
        replace(desk.result(other, "one"), turn_id=grant.turn.turn_id, key=grant.turn.key),
        replace(desk.result(grant, "one"), turn_id=other.turn.turn_id),
    ):
        assert desk.do(late) == Reported(accepted=False)
    assert desk.head("a").version == version
    assert desk.wait(other.turn.turn_id, "one").status is WaitStatus.PENDING, "ids are scoped to their turn"


def test_a_call_waited_for_before_keeps_its_deadline_and_is_not_sent_again() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("one", 60.0))
    desk.do(Preempt(key=grant.turn.key))
    before = desk.wait(grant.turn.turn_id, "one")
    sent = [event for event in desk.events if event.suffix == "call"]
    desk.clock.advance(30)
    again = desk.claim("a")
    assert again.waits == (before,)
    assert not desk.suspend(again, call("one", 60.0)).ready
    assert desk.wait(grant.turn.turn_id, "one") == before
    assert [event for event in desk.events if event.suffix == "call"] == sent
    assert desk.head("a").deadline_ms == before.deadline_ms


def test_a_turn_asks_again_for_a_result_it_has_and_goes_on() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("one"))
    desk.report(grant, "one", {"n": 1})
    suspended = desk.suspend(desk.claim("a"), call("one"))
    assert suspended.ready
    assert [wait.status for wait in suspended.waits] == [WaitStatus.SUCCESS]
    assert desk.head("a").status is HeadStatus.RUNNING
