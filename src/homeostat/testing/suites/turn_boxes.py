"""What a turn store promises about cards and boxes: one place each, in order, and read through references."""

from msgspec.structs import replace

from homeostat.core.ids import BoxId, CardId, card_of, scope_of
from homeostat.core.records.card import DELIVERABLE, EMPTY_BOX
from homeostat.testing.suites import turn_records as a
from homeostat.testing.suites.turn_records import Check, OpenStore


async def a_card_is_known_by_its_whole_id(open_store: OpenStore) -> None:
    store = await open_store()
    scope = a.scope_at(a.NOW)
    note = a.card(scope, 3)
    pointer = a.card(scope, 4, "", digest=note.digest, reference=note.card_id)
    await a.put(store, cards=[note, pointer])
    assert await store.card(a.PROJECT, note.card_id) == note
    for other in (
        card_of(scope, 3, "0" * 32),
        card_of(scope, 4, note.digest),
        card_of(scope, 5, note.digest),
        card_of(a.scope_at(a.NOW, 1), 3, note.digest),
        f"card_{scope}_03_{note.digest}",
        f"card_{scope}_{'9' * 30}_{note.digest}",
    ):
        assert await store.card(a.PROJECT, CardId(other)) is None


async def a_box_is_read_in_order_and_through_its_references(open_store: OpenStore) -> None:
    store = await open_store()
    scope, forked = a.scope_at(a.NOW, 1), a.scope_at(a.NOW, 2)
    cards = [a.card(scope, position, f'"{position}"') for position in (1, 2, 3, 10)]
    pointers = [a.card(forked, n, "", digest=one.digest, reference=one.card_id) for n, one in enumerate(cards, start=1)]
    box, fork = BoxId("box_" + scope), BoxId("box_" + forked)
    gone = a.card(forked, 9, "", reference=CardId("card_x_1_y"))
    await a.put(store, cards=[*reversed(cards), *pointers, gone])
    assert await store.box(a.PROJECT, box, after=-1, limit=2) == cards[:2]
    assert await store.box(a.PROJECT, box, after=2, limit=9) == cards[2:]
    for beyond in (10, 1 << 31, 1 << 53):
        assert await store.box(a.PROJECT, box, after=beyond, limit=9) == []
    read = [replace(pointer, content=one.content) for pointer, one in zip(pointers, cards, strict=True)]
    assert await store.box(a.PROJECT, fork, after=-1, limit=9) == [*read, gone]
    assert [await store.box_length(a.PROJECT, one) for one in (box, fork)] == [10, 9]
    assert await store.box(a.PROJECT, BoxId(f"{box}_1"), after=-1, limit=2) is None, "a box has one name"


async def a_turn_has_a_box_before_it_has_cards(open_store: OpenStore) -> None:
    store = await open_store()
    fresh = a.turn()
    await a.put(store, turns=a.by_id([fresh]), box_owners={BoxId("box_r"): fresh.key})
    assert await store.box(a.PROJECT, a.own_box(fresh), after=-1, limit=9) == []
    assert await store.box_length(a.PROJECT, a.own_box(fresh)) == 0
    assert await store.box_owner(a.PROJECT, BoxId("box_r")) == fresh.key


async def a_worker_is_given_all_it_needs_to_go_on(open_store: OpenStore) -> None:
    store = await open_store()
    context, rolling = a.scope_at(a.NOW, 1), a.scope_at(a.NOW, 2)
    own = a.turn(1, context_box_id=BoxId("box_" + context))
    shared = a.turn(2, output_box_id=BoxId("box_" + rolling))
    given = [a.card(context, position) for position in range(1, 4)]
    written, kept = a.card(scope_of(own.turn_id), 1), a.card(rolling, 1)
    steps = [a.step(own, "s"), a.step(shared, "t")]
    await a.put(store, turns=a.by_id([own, shared]), cards=[*given, written, kept], steps=steps)
    first, again = await store.hydrate(own, fresh=True), await store.hydrate(own, fresh=False)
    assert (first.steps, first.context, first.output) == ({}, tuple(given), ())
    assert (again.steps, again.context, again.output) == ({"s": '"done"'}, tuple(given), (written,))
    rolled = await store.hydrate(shared, fresh=True)
    assert (rolled.steps, rolled.context, rolled.output) == ({}, (), (kept,))


async def a_context_is_read_as_it_was(open_store: OpenStore) -> None:
    """Whatever is written to its box later: at the end, or the end of the turn whose own box it is."""
    store = await open_store()
    other, made, elsewhere = a.turn(1), a.scope_at(a.NOW, 1), a.scope_at(a.NOW, 2)
    scope = scope_of(other.turn_id)
    boxes = [a.own_box(other), BoxId("box_" + made), BoxId("box_" + elsewhere)]
    await a.put(store, turns=a.by_id([other]), cards=[a.card(elsewhere, 1, project=a.ELSEWHERE)])
    assert [await store.box_until(a.PROJECT, box) for box in boxes] == [~0, None, None]
    first = [a.card(scope, 1), a.card(made, 0, type=EMPTY_BOX), a.card(made, 1)]
    await a.put(store, cards=first)
    seen = [await store.box_until(a.PROJECT, box) for box in boxes]
    assert seen == [~1, 1, None]
    assert await store.box_until(a.ELSEWHERE, boxes[2]) == ~1
    readers = [
        a.turn(2, context_box_id=boxes[0], context_until=~0),
        a.turn(3, context_box_id=boxes[0], context_until=~1),
        a.turn(4, context_box_id=boxes[1], context_until=1),
        a.turn(5, context_box_id=boxes[0], context_until=2),
        a.turn(6, context_box_id=boxes[0]),
    ]
    end, later = a.deliverable(other), [a.card(scope, 2), a.card(scope, 3), a.card(made, 2)]
    await a.put(store, turns=a.by_id(readers), cards=[end, *later])
    assert await store.box_until(a.PROJECT, boxes[0]) == 3
    expected = [(), (first[0],), (first[2],), (end, first[0], later[0]), (end, first[0], *later[:2])]
    for reader, context in zip(readers, expected, strict=True):
        view = await store.turn(a.PROJECT, reader.turn_id)
        assert view is not None
        assert view.turn == reader
        assert (await store.hydrate(view.turn, fresh=True)).context == context
    turned = replace(readers[0], context_box_id=boxes[1], context_until=2)
    await a.put(store, turn_boxes=a.by_id([turned]))
    view = await store.turn(a.PROJECT, turned.turn_id)
    assert view is not None
    assert view.turn == turned


async def a_turn_with_a_second_deliverable_is_found(open_store: OpenStore) -> None:
    store = await open_store()
    once, twice = a.turn(1), a.turn(2)
    ends = [a.deliverable(once), a.deliverable(twice)]
    elsewhere = a.card(a.scope_at(a.NOW, 9), 1, type=DELIVERABLE)
    pointer = a.card(scope_of(once.turn_id), 1, "", type=DELIVERABLE, reference=ends[1].card_id)
    note = a.card(scope_of(twice.turn_id), 1)
    await a.put(store, turns=a.by_id([once, twice]), cards=[*ends, elsewhere, pointer, note])
    assert await store.doubled() == {}
    await a.put(store, cards=[a.card(scope_of(twice.turn_id), place, type=DELIVERABLE) for place in (2, 3)])
    assert await store.doubled() == {twice.turn_id: 2}


CHECKS: tuple[Check, ...] = (
    a_card_is_known_by_its_whole_id,
    a_box_is_read_in_order_and_through_its_references,
    a_turn_has_a_box_before_it_has_cards,
    a_worker_is_given_all_it_needs_to_go_on,
    a_context_is_read_as_it_was,
    a_turn_with_a_second_deliverable_is_found,
)
