"""Durable progress inside a turn."""

from typing import Any

import pytest
from msgspec.structs import replace

from homeostat.adapters.doorbells.local import LocalBus
from homeostat.core.codec import NULL, Json, from_json
from homeostat.core.errors import MalformedPayload, StaleEpoch
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.card import CardDraft
from homeostat.core.records.event import Channel, Event, subject
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Deliver, Idempotency, Preempt, StoreStep, Suspend, WriteCards
from homeostat.kernel.steps import store_step
from homeostat.testing.desk import Desk, call, complete, key_of
from homeostat.testing.kernels import running_kernel


def test_a_stored_step_survives_recovery_and_preemption() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.do(StoreStep(fence=fence_of(grant), name="one", outcome=Json("1")))
    desk.recover("a")
    again = desk.claim("a", "wrk_2")
    assert complete(desk.store.hydrate(again.turn, fresh=again.fresh)).steps == {"one": "1"}
    desk.do(StoreStep(fence=fence_of(again), name="two", outcome=Json("2")))
    desk.do(Preempt(key=key_of("a")))
    last = desk.claim("a", "wrk_3")
    assert complete(desk.store.hydrate(last.turn, fresh=last.fresh)).steps == {"one": "1", "two": "2"}


def test_the_first_outcome_stays() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    for outcome in ("1", "2"):
        desk.do(StoreStep(fence=fence_of(grant), name="one", outcome=Json(outcome)))
    assert desk.store.steps[grant.turn.turn_id]["one"].outcome == "1"


def test_a_worker_that_was_fenced_off_stores_nothing() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.recover("a")
    plan = desk.load("a")
    with pytest.raises(StaleEpoch):
        store_step(plan, StoreStep(fence=fence_of(grant), name="one", outcome=Json("1")))
    assert not plan.writes


def test_a_step_swaps_the_head_so_that_a_fenced_worker_loses_the_race() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.decide(StoreStep(fence=fence_of(grant), name="one", outcome=Json("1")))
    stale = desk.plan
    desk.recover("a")
    assert complete(desk.store.save(stale.writes)).stale == {key_of("a")}
    assert desk.store.steps == {}


def test_cards_written_again_under_their_key_are_written_once() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    write = WriteCards(
        fence=fence_of(grant), cards=(CardDraft("note", Json("1")),) * 2, idempotency=Idempotency("k", "two notes")
    )
    first = desk.do(write)
    assert desk.do(write) == first
    assert [card.position for card in desk.cards(grant.turn.turn_id)] == [1, 2]
    desk.deliver(grant)
    assert desk.do(write) == first, "the answer outlives the turn"


# --- what is said of steps -------------------------------------------------------------------------------------------


def said(desk: Desk) -> list[tuple[str, dict[str, Any]]]:
    return [(event.event_id, from_json(event.payload)) for event in desk.events if event.suffix == "step"]


def test_a_step_is_announced_in_the_commit_that_stores_it_and_always_in_the_same_words() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    store = StoreStep(fence=fence_of(grant), name='say "hi"', outcome=Json("1"))
    desk.do(store)
    assert desk.plan.events == [event for event in desk.events if event.suffix == "step"]
    (event,) = desk.plan.events
    assert event.subject == "hs.v1.default.main.evt.agent.a.step"
    turn = grant.turn
    told = {"agent_turn_id": turn.turn_id, "step_id": 'say "hi"', "phase": "stored", "trace_id": turn.trace_id}
    assert from_json(event.payload) == told
    desk.do(store)
    assert len(set(said_twice := desk.events)) == 1, "whoever heard it the first time knows that it did"
    assert len(said_twice) == 2
    desk.recover("a")
    again = desk.claim("a", "wrk_2")
    desk.do(StoreStep(fence=fence_of(again), name='say "hi"', outcome=Json("1")))
    assert len(set(desk.events)) == 1


def test_a_turn_that_waits_says_for_what_and_when_it_goes_on() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    turn_id, trace_id = grant.turn.turn_id, grant.turn.trace_id
    one, two = (replace(call(name), step_id="look up") for name in ("c1", "c2"))
    desk.suspend(grant, one, two)
    desk.report(grant, "c1")
    desk.report(grant, "c1")
    assert [told["phase"] for _, told in said(desk)] == ["suspended"], "one of two results resumes nothing"
    desk.report(grant, "c2")
    desk.report(grant, "c2")
    common = {"agent_turn_id": turn_id, "step_id": "look up", "trace_id": trace_id}
    assert said(desk) == [
        (f"{turn_id}:1:suspended", common | {"phase": "suspended", "turn_epoch": 1, "waiting": ["c1", "c2"]}),
        (f"{turn_id}:2:resumed", common | {"phase": "resumed", "turn_epoch": 2, "waiting": []}),
    ]


def test_a_turn_put_back_while_it_waited_says_anew_for_what_it_waits() -> None:
    desk = Desk("a")
    grant = desk.begin("a")
    desk.suspend(grant, call("c1"), call("c2"))
    desk.do(Preempt(key=key_of("a")))
    again = desk.claim("a")
    desk.report(again, "c1")
    desk.suspend(again, call("c1"), call("c2"))
    (first, told), (second, anew) = said(desk)
    assert first != second
    assert (told["waiting"], anew["waiting"]) == (["c1", "c2"], ["c2"])
    assert (told["step_id"], anew["step_id"]) == (None, None)


def test_a_turn_without_steps_says_nothing_of_them() -> None:
    desk = Desk("a")
    desk.deliver(desk.begin("a"), recording=Json("{}"))
    assert [event.suffix for event in desk.events] == ["task"]


@pytest.mark.parametrize("heard", [True, False])
async def test_steps_are_said_where_anybody_listens_and_written_down_nowhere_else(*, heard: bool) -> None:
    desk, bus, phases = Desk("a"), LocalBus(), list[str]()

    async def hear(event: Event) -> None:
        phases.append(from_json(event.payload)["phase"])

    if heard:
        await bus.subscribe(subject("*", Channel.EVT, "agent", "*", "step"), hear)
    async with running_kernel(desk.store, bus=bus) as kernel:
        worker = await kernel.open_worker([key_of("a")], lambda _: None)
        await kernel.enqueue(desk.message("a"))
        (grant,) = await kernel.claim(worker, 1, 5)
        await kernel.step(fence_of(grant), "one", Json("1"))
        assert len(desk.store.outbox_rows) == heard
        await kernel.suspend(Suspend(fence=fence_of(grant), calls=(call("c1"),)))
        await kernel.relay.tick()
    assert phases == (["stored", "suspended"] if heard else [])


@pytest.mark.parametrize("kind", ["task.deliverable", "tool.call", "tool.result", "box.empty"])
def test_a_worker_writes_no_cards_that_tell_what_the_kernel_did(kind: str) -> None:
    """An end that is none, or a result nobody brought: what reads a box by its types would believe it."""
    desk = Desk("a")
    grant = desk.begin("a")
    forged = (CardDraft("note", Json("1")), CardDraft(kind, Json("{}")))
    for command in (
        WriteCards(fence=fence_of(grant), cards=forged),
        Suspend(fence=fence_of(grant), calls=(call("c"),), cards=forged),
        Deliver(fence=fence_of(grant), status=Outcome.SUCCESS, result=NULL, cards=forged),
    ):
        with pytest.raises(MalformedPayload):
            desk.do(command)
    assert desk.cards(grant.turn.turn_id) == []
    assert desk.head("a").status is HeadStatus.RUNNING


async def test_a_box_is_made_of_cards_that_are_shown() -> None:
    async with running_kernel() as kernel:
        with pytest.raises(MalformedPayload):
            await kernel.create_box(DEFAULT_PROJECT, [CardDraft("box.empty", Json("1"))], None)
        packed = await kernel.create_box(DEFAULT_PROJECT, [CardDraft("task.deliverable", Json("1"))], None)
        assert await kernel.store.box_length(DEFAULT_PROJECT, packed) == 1, "a context may tell of other turns"
