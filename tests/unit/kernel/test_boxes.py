"""Who may write to a box, and what happens to a box that lost its cards."""

import pytest

from homeostat.core.codec import Json
from homeostat.core.errors import BoxNotYours, BoxReadOnly, BoxUnknown
from homeostat.core.ids import DEFAULT_PROJECT, BoxId, box_of, digest_of, scope_floor
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.records.card import Card, CardDraft
from homeostat.core.records.work import fence_of
from homeostat.kernel.commands import PutCards, SwapBoxes, WriteCards
from homeostat.testing.desk import Desk, complete

NOTE = CardDraft("note", Json('"x"'))


def box(desk: Desk) -> BoxId:
    """A box made from outside, with one card in it."""
    scope = desk.ids.scope()
    card = Card(DEFAULT_PROJECT, scope, 1, "note", Json("1"), digest_of("1"), None, desk.clock.now_ms())
    return desk.do(PutCards(project=DEFAULT_PROJECT, box_id=BoxId("box_" + scope), cards=(card,)))


def contents(desk: Desk, box_id: BoxId) -> list[str]:
    return [card.type for card in complete(desk.store.box(DEFAULT_PROJECT, box_id, after=-1, limit=99)) or ()]


def test_the_first_agent_given_a_box_owns_it() -> None:
    desk = Desk("a", "b")
    memory = box(desk)
    desk.enqueue("a", output_box_id=memory)
    with pytest.raises(BoxNotYours):
        desk.enqueue("b", output_box_id=memory)
    assert desk.head("b").tail_seq == 0


def test_a_rolling_box_refers_to_the_cards_of_every_turn_that_wrote_to_it() -> None:
    desk = Desk("a")
    memory = box(desk)
    for _ in range(2):
        grant = desk.begin("a", output_box_id=memory)
        desk.do(WriteCards(fence=fence_of(grant), cards=(NOTE,)))
        desk.deliver(grant)
    assert contents(desk, memory) == ["note", "note", "task.deliverable", "note", "task.deliverable"]


def test_an_unfinished_turn_s_own_box_is_nobody_s_memory_not_even_its_own() -> None:
    desk = Desk("a", "b")
    grant = desk.begin("a")
    own = box_of(grant.turn.turn_id)
    with pytest.raises(BoxNotYours):
        desk.do(SwapBoxes(fence=fence_of(grant), context_box_id=None, output_box_id=own))
    for agent in ("a", "b"):
        with pytest.raises(BoxNotYours):
            desk.enqueue(agent, output_box_id=own)
    desk.do(WriteCards(fence=fence_of(grant), cards=(NOTE,)))
    desk.deliver(grant)


def test_a_finished_turn_s_box_may_become_its_own_agent_s_memory_and_no_other_s() -> None:
    desk = Desk("a", "b")
    first = desk.begin("a")
    desk.deliver(first)
    own = box_of(first.turn.turn_id)
    with pytest.raises(BoxNotYours):
        desk.enqueue("b", output_box_id=own)
    second = desk.begin("a", output_box_id=own)
    desk.do(WriteCards(fence=fence_of(second), cards=(NOTE,)))
    desk.deliver(second)
    assert contents(desk, own) == ["task.deliverable", "note", "task.deliverable"]


def test_retention_leaves_a_memory_whole_and_its_places_taken() -> None:
    desk = Desk("a", "b")
    first = desk.begin("a")
    desk.do(WriteCards(fence=fence_of(first), cards=(NOTE, NOTE)))
    desk.deliver(first)
    own = box_of(first.turn.turn_id)
    second = desk.begin("a", output_box_id=own)
    asked = desk.begin("b", context_box_id=own, context_until=2)
    desk.clock.advance(60)
    assert complete(desk.store.expire(scope_floor(desk.clock.now_ms()), 10)) == 1
    assert complete(desk.store.turn(DEFAULT_PROJECT, first.turn.turn_id)) is None
    desk.do(WriteCards(fence=fence_of(second), cards=(NOTE,)))
    desk.deliver(second)
    assert contents(desk, own) == ["task.deliverable", "note", "note", "note", "task.deliverable"]
    context = complete(desk.store.hydrate(asked.turn, fresh=True)).context
    assert [card.position for card in context] == [0, 1, 2], "what it held when it was handed over"


def test_a_turn_can_end_although_the_box_it_writes_to_has_no_cards() -> None:
    """As versions before left one whose first turn was forgotten."""
    desk = Desk("a")
    first = desk.begin("a")
    desk.deliver(first)
    own = box_of(first.turn.turn_id)
    second = desk.begin("a", output_box_id=own)
    desk.clock.advance(60)
    owners = desk.store.box_owners.copy()
    desk.store.box_owners.clear()
    assert complete(desk.store.expire(scope_floor(desk.clock.now_ms()), 10)) == 1
    desk.store.box_owners.update(owners)
    desk.deliver(second)
    assert desk.head("a").status is HeadStatus.IDLE
    assert contents(desk, own) == ["task.deliverable"]


def test_nobody_writes_to_the_context_of_a_turn_on_its_behalf() -> None:
    desk = Desk("a")
    given, memory = box(desk), box(desk)
    with pytest.raises(BoxReadOnly):
        desk.enqueue("a", context_box_id=given, output_box_id=given)
    grant = desk.begin("a", context_box_id=given, output_box_id=memory)
    for context, output in ((None, given), (memory, None), (memory, memory)):
        with pytest.raises(BoxReadOnly):
            desk.do(SwapBoxes(fence=fence_of(grant), context_box_id=context, output_box_id=output))
    desk.deliver(grant)
    plain = desk.begin("a", context_box_id=given)
    with pytest.raises(BoxReadOnly):
        desk.do(SwapBoxes(fence=fence_of(plain), context_box_id=box_of(plain.turn.turn_id), output_box_id=None))
    desk.deliver(plain)
    assert contents(desk, given) == ["note"]
    assert contents(desk, memory) == ["note", "task.deliverable"]


@pytest.mark.parametrize("box_id", ["box_0", "box_", "card_1", ""])
def test_a_box_nobody_made_is_unknown(box_id: str) -> None:
    desk = Desk("a")
    with pytest.raises(BoxUnknown):
        desk.enqueue("a", output_box_id=BoxId(box_id))
