"""Accepting messages, on a plan by hand."""

import pytest
from msgspec.structs import replace

from homeostat.core.codec import Json
from homeostat.core.errors import AgentBusy, AgentUnknown, DepthExceeded, GateClosed, QueueFull, UnknownMessageType
from homeostat.core.ids import AgentId, ToolCallId, TraceId, TurnId
from homeostat.core.limits import DEPTH_MAX, QUEUE_FRONT, QUEUE_PER_AGENT_MAX, RERING_SECONDS
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.head import Gate, Mailbox
from homeostat.core.records.turn import OPENS_A_TURN, MessageType
from homeostat.kernel.commands import EnqueueAll, Register, SetGate
from homeostat.kernel.enqueue import enqueue, enqueue_all, is_root_trace, register
from homeostat.kernel.plan import Need
from homeostat.testing.desk import Desk, key_of

A = key_of("a")


def test_an_agent_is_registered_once() -> None:
    desk = Desk()
    assert desk.do(Register(key=A)) is True
    before = desk.head("a")
    assert desk.do(Register(key=A)) is False
    assert desk.head("a") == before


def test_a_message_for_an_agent_that_is_registered_in_the_same_batch_is_accepted() -> None:
    desk = Desk()
    refused, registered, accepted = desk.all(desk.message("a"), Register(key=A), desk.message("a"))
    assert isinstance(refused, AgentUnknown)
    assert registered
    assert desk.head("a").turn_id == accepted.turn_id
    assert desk.writes.new_heads[A].version == 1


def test_a_free_agent_is_given_its_message_at_once() -> None:
    desk = Desk("a")
    plan = desk.load("a")
    accepted = enqueue(plan, desk.message("a"))
    base, head = plan.writes.heads[A]
    assert (base, head.version) == (0, 1)
    assert (head.status, head.turn_id, head.epoch, head.queued) == (HeadStatus.DISPATCHED, accepted.turn_id, 1, 0)
    assert not plan.writes.inbox_put


def test_a_busy_agent_s_head_is_swapped_all_the_same() -> None:
    desk = Desk("a")
    desk.enqueue("a")
    plan = desk.load("a")
    accepted = enqueue(plan, desk.message("a"))
    _, head = plan.writes.heads[A]
    assert (head.status, head.queued, head.tail_seq) == (HeadStatus.DISPATCHED, 1, 2)
    assert head.turn_id != accepted.turn_id == head.last_turn_id
    assert [entry.turn.turn_id for entry in plan.writes.inbox_put.values()] == [accepted.turn_id]


def test_messages_behind_a_turn_that_nobody_entered_do_not_make_it_younger() -> None:
    """The watchdog rings again for what has waited long: who goes on sending must not put that off."""
    desk = Desk("a")
    desk.enqueue("a")
    since = desk.head("a").since_ms
    for _ in range(3):
        desk.clock.advance(RERING_SECONDS / 2)
        desk.enqueue("a")
    assert (desk.head("a").status, desk.head("a").since_ms) == (HeadStatus.DISPATCHED, since)


@pytest.mark.parametrize("gate", [Gate.CLOSED, Gate.DRAINING])
def test_a_gate_that_is_not_open_keeps_messages_in_line(gate: Gate) -> None:
    desk = Desk("a")
    desk.do(SetGate(key=A, gate=gate))
    turn_id = desk.enqueue("a")
    assert (desk.head("a").status, desk.head("a").queued) == (HeadStatus.IDLE, 1)
    desk.do(SetGate(key=A, gate=Gate.OPEN))
    assert (desk.head("a").turn_id, desk.head("a").queued) == (turn_id, 0)


def test_each_turn_names_the_one_before_it() -> None:
    desk = Desk("a")
    ids = [desk.enqueue("a") for _ in range(4)]
    assert [desk.store.turns[turn_id].previous_turn_id for turn_id in ids] == [None, *ids[:-1]]
    assert [desk.store.turns[turn_id].seq for turn_id in ids] == [1, 2, 3, 4]


def test_lineage_is_kept_and_a_turn_nobody_caused_is_its_own_trace() -> None:
    desk = Desk("a")
    alone = desk.store.turns[desk.enqueue("a")]
    assert is_root_trace(alone)
    caused = desk.store.turns[
        desk.enqueue(
            "a",
            type=MessageType.JOIN_REQUEST,
            trace_id=TraceId("t"),
            depth=3,
            source=AgentId("b"),
            parent_turn_id=TurnId("turn_1"),
            reply_call_id=ToolCallId("call_1"),
            correlation_id="c",
        )
    ]
    assert not is_root_trace(caused)
    assert (caused.trace_id, caused.depth, caused.source, caused.correlation_id) == ("t", 3, "b", "c")


@pytest.mark.parametrize("kind", sorted(set(MessageType) - OPENS_A_TURN))
def test_what_reports_to_a_turn_cannot_open_one(kind: MessageType) -> None:
    desk = Desk("a")
    with pytest.raises(UnknownMessageType):
        desk.enqueue("a", type=kind)
    assert not desk.writes


def test_calls_in_circles_end_at_the_depth_limit() -> None:
    desk = Desk("a")
    desk.enqueue("a", depth=DEPTH_MAX)
    with pytest.raises(DepthExceeded):
        desk.enqueue("a", depth=DEPTH_MAX + 1)


def test_a_full_queue_refuses() -> None:
    desk = Desk("a")
    plan = desk.load("a")
    head = plan.mailbox(A).head
    plan.mailboxes[A] = Mailbox(replace(head, queued=QUEUE_PER_AGENT_MAX))
    with pytest.raises(QueueFull):
        enqueue(plan, desk.message("a"))
    assert not plan.writes


@pytest.mark.parametrize("count", [1, 2, QUEUE_FRONT + 2])
@pytest.mark.parametrize("before", [0, 1])
def test_messages_that_come_together_are_as_good_as_one_after_the_other(count: int, before: int) -> None:
    said = [{"turn_id": TurnId(f"turn_{number:024x}"), "payload": Json(str(number))} for number in range(count)]
    together, apart = Desk("a"), Desk("a")
    for desk in (together, apart):
        for _ in range(before):
            desk.enqueue("a", turn_id=TurnId("turn_" + "f" * 24))
    assert together.do(EnqueueAll(messages=tuple(together.message("a", **one) for one in said))) == count
    apart.all(*(apart.message("a", **one) for one in said))
    assert together.head("a") == apart.head("a")
    assert together.head("a").version == before + 1, "it is swapped once"
    assert list(together.store.turns.values()) == list(apart.store.turns.values())
    assert together.writes == apart.writes


def test_of_messages_that_come_together_all_are_accepted_or_none() -> None:
    desk = Desk("a")
    plan = desk.load("a")
    plan.mailboxes[A] = Mailbox(replace(plan.mailbox(A).head, queued=QUEUE_PER_AGENT_MAX - 1))
    with pytest.raises(QueueFull):
        enqueue_all(plan, EnqueueAll(messages=(desk.message("a"), desk.message("a"))))
    assert not plan.writes


def test_a_direct_action_is_taken_at_once_or_not_at_all() -> None:
    desk = Desk("a")
    action = desk.message("a", type=MessageType.UI_ACTION)
    accepted = desk.do(action)
    assert desk.head("a").turn_id == accepted.turn_id
    with pytest.raises(AgentBusy):
        desk.do(action)
    desk.stop(accepted.turn_id)
    desk.do(SetGate(key=A, gate=Gate.DRAINING))
    with pytest.raises(GateClosed):
        desk.do(action)


def test_a_rule_asks_before_it_writes() -> None:
    desk = Desk("a")
    plan = desk.load()
    with pytest.raises(Need) as need:
        enqueue(plan, desk.message("a"))
    assert need.value.mailbox == A
    assert not plan.writes
    plan.mailboxes[A] = None
    with pytest.raises(AgentUnknown):
        enqueue(plan, desk.message("a"))
    assert register(plan, Register(key=A))
    assert enqueue(plan, desk.message("a", payload=Json("1"))).turn_id in plan.writes.turns
