"""How stored rows are put together for readers, the same on every engine."""

from msgspec.structs import replace

from homeostat.core.machines.turn import ITEM_OF_HEAD, ItemStatus
from homeostat.core.records.card import Card
from homeostat.core.records.turn import OpenTurn, Turn, TurnStatus, Wait
from homeostat.core.records.view import Deliverable, HeadView, TurnView


def turn_view(
    turn: Turn,
    queued: OpenTurn | None,
    head: HeadView | None,
    waits: tuple[Wait, ...],
    deliverable: Deliverable | None,
) -> TurnView:
    """A turn is finished if it has a deliverable, active if its head says so, and else in line."""
    if deliverable is not None:
        dead = deliverable.error is not None and '"attempts_exhausted"' in deliverable.error
        item = ItemStatus.DEAD if dead else ItemStatus.CONSUMED
        return TurnView(
            turn, TurnStatus(deliverable.status), item, deliverable.epoch, 0, 0, None, None, waits, deliverable
        )
    if head is not None and head.head.turn_id == turn.turn_id:
        now = head.head
        return TurnView(
            turn,
            TurnStatus(now.status.value),
            ITEM_OF_HEAD[now.status],
            now.epoch,
            now.starts,
            now.losses,
            now.worker_id,
            head.lease_expires_at_ms,
            waits,
            None,
        )
    starts, losses = (queued.starts, queued.losses) if queued else (0, 0)
    return TurnView(turn, TurnStatus.QUEUED, ItemStatus.QUEUED, None, starts, losses, None, None, waits, None)


def resolve(entry: Card, target: Card | None) -> Card:
    """A reference as its reader gets it: its own place, the other card's content."""
    return entry if target is None else replace(entry, content=target.content)
