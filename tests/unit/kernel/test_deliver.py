"""Ending turns: every way out, exactly one deliverable, exactly one terminal event."""

from typing import Any

import pytest
from msgspec.structs import replace

from homeostat.core.codec import Json, from_json, to_json
from homeostat.core.errors import ResultFieldsMissing, StaleEpoch
from homeostat.core.ids import ToolCallId
from homeostat.core.limits import ATTEMPTS_MAX
from homeostat.core.machines.turn import HEAD, HeadStatus, ItemStatus, TurnEvent
from homeostat.core.records.card import CardDraft
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import MessageType, TurnStatus, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Claim, Deliver, Recover, SetGate
from homeostat.kernel.deliver import deliver, recover
from homeostat.testing.desk import Desk, call, key_of

A = key_of("a")


def ends(desk: Desk) -> list[str]:
    """The turns whose end was announced."""
    return [event.event_id for event in desk.events if event.suffix == "task"]


def test_a_delivery_is_one_card_one_event_and_an_idle_head() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    delivered = desk.deliver(grant, to_json({"answer": 42}), cards=(CardDraft("note", Json("1")),))
    ended = desk.deliverable(grant.turn.turn_id)
    assert ended is not None
    assert (ended.card_id, ended.status, from_json(ended.result)) == (
        delivered.card_id,
        Outcome.SUCCESS,
        {"answer": 42},
    )
    assert ends(desk) == [grant.turn.turn_id]
    said = from_json(desk.events[-1].payload)
    assert said["deliverable_card_id"] == delivered.card_id
    assert (said["worked_ms"], said["steps"], said["losses"]) == (0, 1, 0)
    head = desk.head("a")
    assert (head.status, head.worker_id, head.starts, head.cards) == (HeadStatus.IDLE, None, 0, 0)
    assert [card.position for card in desk.cards(grant.turn.turn_id)] == [1, 0]
    view = desk.view(grant.turn.turn_id)
    assert (view.status, view.item_status) == (TurnStatus.SUCCESS, ItemStatus.CONSUMED)


def test_a_second_delivery_is_fenced_off() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.deliver(grant)
    with pytest.raises(StaleEpoch):
        desk.deliver(grant, Json("2"))
    assert len(ends(desk)) == 1


@pytest.mark.parametrize("change", [{"epoch": 0}, {"worker_id": "wrk_other"}, {"turn_id": "turn_invented"}])
def test_a_forged_fence_changes_nothing(change: dict[str, object]) -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    plan = desk.load("a")
    fence = replace(fence_of(grant), **change)
    with pytest.raises(StaleEpoch):
        deliver(plan, Deliver(fence=fence, status=Outcome.SUCCESS, result=Json("1")), [])
    assert not plan.writes


def test_the_next_turn_comes_along_in_the_same_commit() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    following = desk.enqueue("a")
    delivered = desk.deliver(grant, claim_next=True)
    assert delivered.next is not None
    assert (delivered.next.turn.turn_id, delivered.next.worker_id) == (following, grant.worker_id)
    assert delivered.next.epoch > grant.epoch
    assert desk.deliver(delivered.next, claim_next=True).next is None


@pytest.mark.parametrize(
    ("result", "missing"),
    [
        ({"title": "x", "score": 1}, None),
        ({"title": "x", "score": 1, "more": 2}, None),
        ([{"name": "title", "value": 1}, {"name": "score"}], None),
        ({"title": "x"}, "score"),
        ([{"name": "score"}, "title"], "title"),
        ("text", "title, score"),
        (None, "title, score"),
    ],
)
def test_a_success_covers_the_fields_that_were_asked_for(result: object, missing: str | None) -> None:
    desk = Desk("a")
    fields = [{"name": "title"}, {"name": "score", "required": True}, {"name": "note", "required": False}]
    grant = desk.begin("a", result_fields=to_json(fields))
    if missing is None:
        desk.deliver(grant, to_json(result))
        return
    with pytest.raises(ResultFieldsMissing, match=missing):
        desk.deliver(grant, to_json(result))
    assert desk.head("a").status is HeadStatus.RUNNING
    desk.deliver(grant, to_json(result), status=Outcome.FAILED)


@pytest.mark.parametrize("state", ["queued", *sorted(HEAD.sources(TurnEvent.STOP))])
def test_a_turn_can_be_stopped_wherever_it_is(state: str) -> None:
    desk = Desk("a")
    if state == "queued":
        desk.enqueue("a")
    turn_id = desk.enqueue("a")
    if state in (HeadStatus.RUNNING, HeadStatus.SUSPENDED):
        grant = desk.claim("a")
        if state == HeadStatus.SUSPENDED:
            desk.suspend(grant, call("one"), call("two"))
            desk.report(grant, "one")
    other = desk.enqueue("a")
    stopped = desk.stop(turn_id)
    ended = desk.deliverable(turn_id)
    assert ended is not None
    assert (stopped.stopped, stopped.card_id, ended.status) == (True, ended.card_id, Outcome.STOP)
    assert from_json(ended.error or "null") == {"code": "stopped", "message": "enough", "actor": "ann"}
    assert ends(desk) == [turn_id]
    assert bool(desk.plan.revoked) == (state == HeadStatus.RUNNING)
    if state == HeadStatus.SUSPENDED:
        assert desk.wait(turn_id, "one").status is WaitStatus.SUCCESS
        assert desk.wait(turn_id, "two").status is WaitStatus.CANCELLED
    if state != "queued":
        assert desk.head("a").turn_id == other, "the next one is dispatched"
    assert desk.stop(turn_id).stopped is False
    assert len(ends(desk)) == 1


def test_recovery_costs_an_attempt_and_the_last_one_ends_the_turn() -> None:
    desk = Desk("a")
    turn_id = desk.enqueue("a")
    epochs: list[int] = []
    for losses in range(1, ATTEMPTS_MAX):
        epochs.append(desk.claim("a", f"wrk_{losses}").epoch)
        assert desk.recover("a")
        assert (desk.head("a").status, desk.head("a").losses) == (HeadStatus.DISPATCHED, losses)
    assert epochs == sorted(set(epochs))
    desk.claim("a")
    assert desk.recover("a")
    ended = desk.deliverable(turn_id)
    assert ended is not None
    assert ended.status is Outcome.FAILED
    assert desk.view(turn_id).item_status is ItemStatus.DEAD
    assert ends(desk) == [turn_id]


def test_what_moved_on_is_not_recovered() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    fence = fence_of(grant)
    plan = desk.load("a")
    for old in (replace(fence, epoch=0), replace(fence, worker_id="wrk_other"), replace(fence, turn_id="turn_x")):
        assert not recover(plan, Recover(fence=old, cause="silent"), [])
    assert not plan.writes
    desk.suspend(grant, call("one"))
    assert not desk.do(Recover(fence=fence, cause="silent")), "a suspended turn holds no worker"


@pytest.mark.parametrize("how", ["delivered", "stopped", "reaped"])
def test_however_a_joined_turn_ends_its_parent_is_told_in_the_same_commit(how: str) -> None:
    desk = Desk("parent", "child")
    parent = desk.begin("parent")
    child = desk.message(
        "child",
        type=MessageType.JOIN_REQUEST,
        source=parent.turn.agent_id,
        parent_turn_id=parent.turn.turn_id,
        reply_call_id=ToolCallId("ask"),
    )
    desk.suspend(parent, call("ask"), children=(child,))
    grant = desk.claim("child")
    match how:
        case "delivered":
            desk.deliver(grant, to_json(7))
        case "stopped":
            desk.stop(grant.turn.turn_id)
        case _:
            for _ in range(ATTEMPTS_MAX - 1):
                desk.recover("child")
                desk.claim("child")
            desk.recover("child")
    assert desk.head("parent").status is HeadStatus.DISPATCHED
    wait = desk.wait(parent.turn.turn_id, "ask")
    assert wait.status is (WaitStatus.SUCCESS if how == "delivered" else WaitStatus.ERROR)
    ended = desk.deliverable(grant.turn.turn_id)
    assert ended is not None
    said = next(card for card in desk.cards(parent.turn.turn_id) if card.card_id == wait.result_card_id)
    assert from_json(said.content)["result"]["deliverable_card_id"] == ended.card_id


def test_a_parent_that_moved_on_needs_no_reply() -> None:
    desk = Desk("parent", "child")
    parent = desk.begin("parent")
    child = desk.message(
        "child",
        type=MessageType.JOIN_REQUEST,
        source=parent.turn.agent_id,
        parent_turn_id=parent.turn.turn_id,
        reply_call_id=ToolCallId("ask"),
    )
    desk.suspend(parent, call("ask"), children=(child,))
    desk.stop(parent.turn.turn_id)
    before = desk.head("parent")
    desk.deliver(desk.claim("child"))
    assert desk.head("parent") == before
    assert desk.head("child").status is HeadStatus.IDLE


@pytest.mark.parametrize("gate", list(Gate))
@pytest.mark.parametrize("veteran", [False, True])
@pytest.mark.parametrize("waiting", [0, 1, 3])
def test_going_on_in_one_breath_is_ending_and_entering_in_one_flush(gate: Gate, waiting: int, *, veteran: bool) -> None:
    """The short way and the long way are the same: what is written, what is remembered, and what the worker gets."""

    def decided(*, claim_next: bool) -> tuple[Desk, list[Any]]:
        desk = Desk("a")
        grant = desk.begin("a")
        for _ in range(waiting):
            desk.enqueue("a", run_id="run_1")
        desk.do(SetGate(key=A, gate=gate))
        mailbox = desk.mailbox("a")
        if veteran and mailbox.queue:  # the front has been worked on before, and was put back
            front = replace(mailbox.queue[0], starts=2, losses=1, cards=3)
            mailbox = replace(mailbox, queue=(front, *mailbox.queue[1:]))
        desk.clock.advance(5)
        fence = fence_of(grant)
        ending = Deliver(fence=fence, status=Outcome.SUCCESS, result=Json("1"), claim_next=claim_next)
        after = () if claim_next else (Claim(key=A, worker_id=fence.worker_id),)
        return desk, desk.decide(ending, *after, known={A: mailbox})

    short, (handed,) = decided(claim_next=True)
    long, (ended, entered) = decided(claim_next=False)
    assert (handed.card_id, handed.next) == (ended.card_id, entered)
    assert short.plan.mailboxes == long.plan.mailboxes
    assert short.writes == long.writes
    assert (entered is not None) == (bool(waiting) and gate is Gate.OPEN)
