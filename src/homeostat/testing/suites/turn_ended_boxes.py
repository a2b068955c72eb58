"""What a turn store promises about the end of a box: nothing that is needed ends, and what has ended is gone."""

import asyncio

from msgspec.structs import replace

from homeostat.core.ids import BoxId, Scope, scope_floor, scope_of
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.box import NOBODY, BoxEnding
from homeostat.core.records.card import Card
from homeostat.core.records.turn import OpenTurn
from homeostat.core.records.writes import Saved, Writes
from homeostat.testing.suites import turn_records as a
from homeostat.testing.suites.turn_records import Check, OpenStore

MADE, FORKED = a.scope_at(a.NOW, 1), a.scope_at(a.NOW, 2)
BOX, FORK = BoxId("box_" + MADE), BoxId("box_" + FORKED)
ENDED, UNKNOWN = BoxEnding(), BoxEnding(unknown=True)


def _pointer(scope: Scope, position: int, born: Card) -> Card:
    return a.card(scope, position, "", digest=born.digest, reference=born.card_id)


async def _cleared(store: TurnStore) -> int:
    """Take away whatever has ended."""
    taken = 0
    while count := await store.clear(2):
        taken += count
    return taken


async def _stays(store: TurnStore, box_id: BoxId) -> bool:
    """Whether a box can be named, which changes nothing."""
    return (await store.save(Writes(boxes={(a.PROJECT, box_id)}))).ok


async def _is_gone(store: TurnStore, box_id: BoxId) -> None:
    assert await store.box(a.PROJECT, box_id, after=-1, limit=9) is None
    assert await store.box_length(a.PROJECT, box_id) is None
    assert await store.box_until(a.PROJECT, box_id) is None
    assert await store.end_box(a.PROJECT, box_id) == UNKNOWN
    assert not await _stays(store, box_id)


async def a_box_that_ends_is_gone_at_once_and_its_cards_piece_by_piece(open_store: OpenStore) -> None:
    store = await open_store()
    cards, other = [a.card(MADE, position) for position in range(1, 6)], a.card(FORKED, 1)
    await a.put(store, cards=[*cards, other])
    assert await _stays(store, BOX)
    assert await store.clear(9) == 0
    assert await store.end_box(a.PROJECT, BOX) == ENDED
    await _is_gone(store, BOX)
    assert await store.box_owner(a.PROJECT, BOX) == (a.PROJECT, NOBODY)
    assert [await store.clear(2) for _ in range(4)] == [2, 2, 1, 0]
    await _is_gone(store, BOX)
    assert await store.box_owner(a.PROJECT, BOX) is None
    assert [await store.card(a.PROJECT, one.card_id) for one in cards] == [None] * 5
    assert await store.box(a.PROJECT, FORK, after=-1, limit=9) == [other]


async def a_box_of_another_project_is_none_of_ones_own(open_store: OpenStore) -> None:
    store = await open_store()
    theirs = a.turn(1, project=a.ELSEWHERE)
    await a.put(store, cards=[a.card(MADE, 1, project=a.ELSEWHERE)], turns=a.by_id([theirs]))
    for box_id in (BOX, a.own_box(theirs), BoxId("box_" + a.scope_at(a.NOW, 7)), BoxId("box_"), BoxId("card_x")):
        assert await store.end_box(a.PROJECT, box_id) == UNKNOWN, box_id
        assert not await _stays(store, box_id)
    await a.put(store, box_owners={FORK: (a.ELSEWHERE, a.AGENT)})
    assert await store.end_box(a.PROJECT, FORK) == UNKNOWN
    assert not await _stays(store, FORK)
    assert await store.save(Writes(boxes={(a.PROJECT, BOX), (a.ELSEWHERE, BOX)})) == Saved(
        gone=frozenset({(a.PROJECT, BOX)})
    )
    await a.put(store, cards=[a.card(FORKED, 1)])
    assert await store.end_box(a.PROJECT, FORK) == ENDED
    assert await store.box_owner(a.ELSEWHERE, FORK) == (a.ELSEWHERE, a.AGENT), "a box of that name elsewhere"
    await a.put(store, boxes={(a.ELSEWHERE, FORK)})
    assert await store.end_box(a.ELSEWHERE, BOX) == ENDED
    assert await _cleared(store) == 2


async def a_box_that_an_unfinished_turn_needs_stays(open_store: OpenStore) -> None:
    """Be it worked on or in line; turns of others that have a box of that name need theirs."""
    store = await open_store()
    reader, writer = a.turn(1, context_box_id=BOX), a.turn(1, agent_id="agent-2", output_box_id=FORK)
    theirs = a.turn(1, project=a.ELSEWHERE, context_box_id=BOX, output_box_id=FORK)
    waiting = a.turn(2, project=a.ELSEWHERE, context_box_id=FORK, output_box_id=BOX)
    heads = [a.idle(), a.idle("agent-2"), a.idle(project=a.ELSEWHERE)]
    await a.register(store, *heads)
    await a.put(
        store,
        cards=[a.card(MADE, 1), a.card(FORKED, 1)],
        box_owners={FORK: writer.key},
        heads=a.swap(
            a.holding(heads[0], reader, HeadStatus.SUSPENDED), a.moved(heads[1], queued=1), a.holding(heads[2], theirs)
        ),
        turns=a.by_id([reader, writer, theirs, waiting]),
        inbox_put=a.in_line(OpenTurn(writer), OpenTurn(waiting)),
    )
    assert await store.end_box(a.PROJECT, BOX) == BoxEnding(needed_by=reader.turn_id)
    assert await store.end_box(a.PROJECT, FORK) == BoxEnding(needed_by=writer.turn_id)
    own = await store.end_box(a.PROJECT, a.own_box(reader))
    assert own == BoxEnding(needed_by=reader.turn_id, born_of=reader.turn_id)
    assert await _cleared(store) == 0
    assert await store.box_owner(a.PROJECT, FORK) == writer.key
    assert [len(await store.box(a.PROJECT, one, after=-1, limit=9) or ()) for one in (BOX, FORK)] == [1, 1]
    # Both turns end; those of the other project go on.
    moved = a.moved(a.holding(heads[0], reader, HeadStatus.SUSPENDED), status=HeadStatus.IDLE, turn_id=None)
    await a.put(
        store,
        heads=a.swap(moved, a.moved(a.moved(heads[1], queued=1), queued=0)),
        inbox_drop={(writer.project, writer.agent_id, writer.seq)},
        cards=[a.deliverable(reader), a.deliverable(writer)],
    )
    assert [await store.end_box(a.PROJECT, one) for one in (BOX, FORK)] == [ENDED, ENDED]
    await _is_gone(store, BOX)
    assert await store.end_box(a.PROJECT, a.own_box(reader)) == BoxEnding(born_of=reader.turn_id), "it goes with it"
    assert await _cleared(store) == 2
    assert await store.box_owner(a.PROJECT, FORK) is None


async def a_box_that_another_refers_to_stays(open_store: OpenStore) -> None:
    store = await open_store()
    born = [a.card(MADE, position) for position in (1, 2)]
    alike = a.card(Scope(MADE + "0"), 1)
    await a.put(store, cards=[*born, _pointer(FORKED, 1, born[1]), alike])
    assert await store.end_box(a.PROJECT, BOX) == BoxEnding(referred_by=FORK)
    assert await store.clear(9) == 0
    assert await store.end_box(a.PROJECT, FORK) == ENDED
    assert await _cleared(store) == 1
    assert await store.box(a.PROJECT, BOX, after=-1, limit=9) == born, "what was made is nobody else's to take away"
    assert await store.end_box(a.PROJECT, BOX) == ENDED
    assert await _cleared(store) == 2
    assert await store.card(a.PROJECT, alike.card_id) == alike


async def what_retention_left_for_a_box_goes_with_it(open_store: OpenStore) -> None:
    """And stays where another one refers to it, or its turn is there still."""
    store = await open_store()
    shared, lone, kept = a.turn(1), a.turn(2), a.turn(3, at=a.NOW + 9)
    cards = {one.turn_id: [a.deliverable(one), a.card(scope_of(one.turn_id), 1)] for one in (shared, lone, kept)}
    born = [card for pair in cards.values() for card in pair]
    memory = [_pointer(MADE, place, card) for place, card in enumerate(born, start=1)]
    await a.put(store, turns=a.by_id([shared, lone, kept]), cards=[*born, *memory], box_owners={BOX: shared.key})
    await a.put(store, cards=[_pointer(FORKED, 1, cards[shared.turn_id][1])])
    assert await store.expire(scope_floor(a.NOW + 5), 9) == 2
    assert await store.end_box(a.PROJECT, a.own_box(lone)) == BoxEnding(referred_by=BOX)
    assert await store.end_box(a.PROJECT, BOX) == ENDED
    assert await _cleared(store) == 6
    left = [await store.card(a.PROJECT, card.card_id) for card in born]
    assert left == [*cards[shared.turn_id], None, None, *cards[kept.turn_id]]
    assert await store.box(a.PROJECT, FORK, after=-1, limit=9) == [
        replace(_pointer(FORKED, 1, born[1]), content=born[1].content)
    ]
    assert await store.end_box(a.PROJECT, FORK) == ENDED
    assert await _cleared(store) == 1
    assert [await store.card(a.PROJECT, card.card_id) for card in cards[shared.turn_id]] == [None, None]
    assert await store.expire(scope_floor(a.NOW + 10), 9) == 1
    assert [await store.card(a.PROJECT, card.card_id) for card in cards[kept.turn_id]] == [None, None]


async def no_save_that_names_a_box_is_made_beside_its_end(open_store: OpenStore) -> None:
    """Whichever comes first: either the box is needed, or the save finds it gone and writes nothing."""
    one, other = await open_store(), await open_store()
    for number in range(1, 9):
        scope = a.scope_at(a.NOW, number)
        box_id, agent = BoxId("box_" + scope), f"agent-{number}"
        reader = a.turn(1, agent_id=agent, context_box_id=box_id)
        await a.register(one, a.idle(agent))
        await a.put(one, cards=[a.card(scope, 1)])
        writes = Writes(
            heads=a.swap(a.holding(a.idle(agent), reader)), turns=a.by_id([reader]), boxes={(a.PROJECT, box_id)}
        )
        late = asyncio.ensure_future(other.save(writes))
        if number % 2:
            await asyncio.sleep(0)
        ending, saved = await asyncio.gather(one.end_box(a.PROJECT, box_id), late)
        if saved.ok:
            assert ending == BoxEnding(needed_by=reader.turn_id)
        else:
            assert (ending, saved) == (ENDED, Saved(gone=frozenset({(a.PROJECT, box_id)})))
            assert await one.turn(a.PROJECT, reader.turn_id) is None
            (mailbox,) = (await one.load([reader.key])).values()
            assert mailbox.head == a.idle(agent)


CHECKS: tuple[Check, ...] = (
    a_box_that_ends_is_gone_at_once_and_its_cards_piece_by_piece,
    a_box_of_another_project_is_none_of_ones_own,
    a_box_that_an_unfinished_turn_needs_stays,
    a_box_that_another_refers_to_stays,
    what_retention_left_for_a_box_goes_with_it,
    no_save_that_names_a_box_is_made_beside_its_end,
)
