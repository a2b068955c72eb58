"""What the immune system notes in an agent's memory, and what its host may do to it: add, never erase."""

from collections.abc import Mapping
from contextlib import suppress
from typing import NamedTuple

from homeostat.core.clock import Millis
from homeostat.core.codec import Json, read_as
from homeostat.core.errors import MalformedPayload
from homeostat.core.ids import AgentId
from homeostat.core.limits import TREATMENT_SECONDS, TREATMENTS_KEPT_MAX
from homeostat.core.ports.memory import CLEARED, TREATED
from homeostat.core.records.immune import RemedyAction
from homeostat.immune.errors import TreatmentKept

LASTS_MS = int(TREATMENT_SECONDS * 1000)


class Note(NamedTuple):
    """A remedy, and when it was given."""

    action: RemedyAction
    at_ms: int

    def holds(self, now: Millis) -> bool:
        return self.at_ms + LASTS_MS > now


def notes_of(memory: Mapping[str, Json]) -> list[Note]:
    """The remedies that stand in a memory; what is no list of remedies is nothing of ours."""
    text = memory.get(TREATED)
    with suppress(MalformedPayload):
        return [] if text is None else _read(text)
    return []


def admitted(
    agent_id: AgentId, kept: Mapping[str, Json], changes: Mapping[str, Json | None], now: Millis
) -> dict[str, Json | None]:
    """Changes of a memory as they are carried out. Raises `TreatmentKept` where they would undo a remedy.

    A worker adds the remedies it was ordered to apply. Who drops the order to forget has forgotten.
    """
    if changes.get(CLEARED) is not None:
        raise TreatmentKept(agent_id=agent_id, problem="only the immune system orders an agent to forget")
    if TREATED in changes:
        text = changes[TREATED]
        left = [] if text is None else _read(text)
        if lost := [note.action for note in notes_of(kept) if note.holds(now) and not _stands(note, left)]:
            raise TreatmentKept(agent_id=agent_id, problem=f"{', '.join(lost)} is in force and cannot be erased")
    if CLEARED in changes and CLEARED in kept:
        return {**dict.fromkeys(kept.keys() - {TREATED}), **changes}
    return dict(changes)


def _stands(note: Note, left: list[Note]) -> bool:
    """Whether a remedy is still noted, or was given so often since that its oldest note had to go."""
    since = sum(one.action == note.action and one.at_ms >= note.at_ms for one in left)
    return note in left or since >= TREATMENTS_KEPT_MAX


def _read(text: Json) -> list[Note]:
    return [Note(*one) for one in read_as(list[tuple[RemedyAction, int]], text)]
