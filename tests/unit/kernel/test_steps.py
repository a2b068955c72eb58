"""Durable progress inside a turn."""

import pytest

from homeostat.core.codec import Json
from homeostat.core.errors import StaleEpoch
from homeostat.core.records.card import CardDraft
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import Idempotency, Preempt, StoreStep, WriteCards
from homeostat.kernel.steps import store_step
from homeostat.testing.desk import Desk, complete, key_of


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
