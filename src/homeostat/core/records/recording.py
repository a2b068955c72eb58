"""What is left of a turn when it has ended: everything that came to it from outside, and what it made of it."""

from typing import Final

from msgspec import UNSET, Struct, UnsetType

from homeostat.core.canonical import Ordered
from homeostat.core.ids import TurnId
from homeostat.core.records.card import Card
from homeostat.core.records.turn import Step, Turn, Wait
from homeostat.core.records.view import Deliverable

RECORDING: Final = "#recording"
"""A step that no author can name: who worked on the turn, and what it remembered. Written with the deliverable."""


GOES_ON: Final = "goes_on"
"""What a ledger says of a turn that outlives the one that asked for it, before it tells of its end."""


def going_on(turn_id: TurnId) -> str:
    """How that is called among all that is told of a turn."""
    return f"{turn_id} {GOES_ON}"


def end_of(turn_id: TurnId) -> str:
    """How what is told of a turn's end is called among all that is told of it."""
    return f"{turn_id} end"


class Worked(Struct, frozen=True, gc=False):
    """A turn with its stored steps, its calls, and the cards that were born in it. `end` is how it ended, where that is
    at hand; its card says the same.
    """

    turn: Turn
    steps: tuple[Step, ...]
    waits: tuple[Wait, ...]
    cards: tuple[Card, ...]
    end: Deliverable | None = None


class TaskTold(Ordered, frozen=True, kw_only=True, gc=False):
    """Which task a turn was, in words that a replay can repeat; and that it succeeded, where the end says so."""

    attempt: int | UnsetType = UNSET
    event: str | UnsetType = UNSET
    name: str
    number: int | UnsetType = UNSET
    started_at_ms: int | UnsetType | None = UNSET
    status: str | UnsetType = UNSET
