"""Boxes from outside any turn: what a new one begins with, how far one goes that a turn is pointed at, and its end."""

from collections.abc import Collection
from contextlib import suppress

from msgspec.structs import replace

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.errors import BoxInUse, BoxOfTurn, BoxReferred, BoxUnknown, MalformedPayload, StoreUnavailable
from homeostat.core.ids import AgentId, BoxId, ProjectId, Scope, digest_of
from homeostat.core.limits import PAGE_MAX, SWEEP_ROWS_MAX
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import EMPTY_BOX, Card, CardDraft
from homeostat.kernel.commands import Enqueue, Idempotency, PutCards, Suspend


async def extent(store: TurnStore, project: ProjectId, box_id: BoxId) -> int:
    """How far a box goes that there has to be; see `TurnStore.box_until`."""
    until = await store.box_until(project, box_id)
    if until is None:
        raise BoxUnknown(box_id=box_id)
    return until


async def with_context(store: TurnStore, command: Enqueue) -> Enqueue:
    """A message whose context is what the box holds now, whatever is written to it before somebody reads it."""
    if command.context_box_id is None:
        return command
    return replace(command, context_until=await extent(store, command.key[0], command.context_box_id))


async def with_contexts(store: TurnStore, command: Suspend) -> Suspend:
    """The same for those whom a turn asks."""
    return replace(command, children=tuple([await with_context(store, child) for child in command.children]))


def new_cards(
    project: ProjectId, scope: Scope, drafts: Collection[CardDraft], author: AgentId | None, now: Millis
) -> tuple[Card, ...]:
    """The cards of a new box."""
    if any(draft.type == EMPTY_BOX for draft in drafts):
        raise MalformedPayload(field="cards", problem=f"{EMPTY_BOX} stands for a box without cards")
    return tuple(
        Card(project, scope, position, draft.type, draft.content, digest_of(draft.content), author, now)
        for position, draft in enumerate(drafts, start=1)
    ) or _empty(project, scope, now)


async def copies(store: TurnStore, project: ProjectId, box_id: BoxId, scope: Scope, now: Millis) -> tuple[Card, ...]:
    """The cards of a new box that refer to those of another."""
    cards: list[Card] = []
    after = -1
    while page := await store.box(project, box_id, after=after, limit=PAGE_MAX):
        cards += (card for card in page if card.type != EMPTY_BOX)
        after = page[-1].position
    if not cards:
        await extent(store, project, box_id)
    return tuple(
        Card(project, scope, position, card.type, Json(""), card.digest, card.author, now, card.card_id)
        for position, card in enumerate(cards, start=1)
    ) or _empty(project, scope, now)


def put(
    project: ProjectId,
    scope: Scope,
    cards: tuple[Card, ...],
    idempotency: Idempotency | None,
    *,
    of: BoxId | None = None,
) -> PutCards:
    """Lay the cards of a new box."""
    return PutCards(project=project, box_id=BoxId("box_" + scope), cards=cards, of=of, idempotency=idempotency)


async def end(store: TurnStore, project: ProjectId, box_id: BoxId) -> None:
    """End a box that nothing needs. It is gone at once, and its cards are piece by piece, here or by retention."""
    ending = await store.end_box(project, box_id)
    if ending.unknown:
        raise BoxUnknown(box_id=box_id)
    if ending.needed_by is not None:
        raise BoxInUse(box_id=box_id, turn_id=ending.needed_by)
    if ending.born_of is not None:
        raise BoxOfTurn(box_id=box_id, turn_id=ending.born_of)
    if ending.referred_by is not None:
        raise BoxReferred(box_id=box_id, referred_by=ending.referred_by)
    with suppress(StoreUnavailable):
        while await store.clear(SWEEP_ROWS_MAX) >= SWEEP_ROWS_MAX:
            pass


def _empty(project: ProjectId, scope: Scope, now: Millis) -> tuple[Card, ...]:
    empty = Json("null")
    return (Card(project, scope, 0, EMPTY_BOX, empty, digest_of(empty), None, now),)
