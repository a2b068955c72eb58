"""Cards hold what turns produce; a box is an append-only list of them."""

from typing import Any, Final

from msgspec import Struct

from homeostat.core.clock import Millis
from homeostat.core.codec import Json, from_json
from homeostat.core.ids import AgentId, CardId, ProjectId, Scope, card_of

DELIVERABLE: Final = "task.deliverable"
TOOL_CALL: Final = "tool.call"
TOOL_RESULT: Final = "tool.result"
RESULT_FIELDS: Final = "task.result_fields"
EMPTY_BOX: Final = "box.empty"
"""Stands in a box that was made without cards, so that there is one; nobody is shown it."""

KERNEL_CARDS: Final = frozenset({DELIVERABLE, TOOL_CALL, TOOL_RESULT, EMPTY_BOX})
"""What the kernel alone writes into the box of a turn; a worker's cards are of other types."""

DELIVERABLE_POSITION: Final = 0
"""A turn's deliverable lies at a fixed place, so that whether a turn is finished is one look-up."""


class Card(Struct, frozen=True, gc=False):
    """One immutable piece of content, or a reference to one that was born in another box."""

    project: ProjectId
    scope: Scope
    position: int
    type: str
    content: Json
    digest: str
    author: AgentId | None
    created_at_ms: Millis
    reference: CardId | None = None

    @property
    def value(self) -> Any:
        """The content as Python values."""
        return from_json(self.content)

    @property
    def card_id(self) -> CardId:
        return self.reference or card_of(self.scope, self.position, self.digest)


NOTHING_YET: Final = ~0
"""How far a box went in which nothing lay yet."""


def reaches(until: int | None, position: int) -> bool:
    """Whether a position lies within what a box held once; `TurnStore.box_until` says how that is told."""
    if until is None:
        return True
    return position <= until if until >= 0 else 0 < position <= ~until


class CardDraft(Struct, frozen=True, gc=False):
    """A card a worker wants written; the kernel gives it its place and its id."""

    type: str
    content: Json
