"""Agents and their turns: each in one place, numbered without a gap, ended once, with a deliverable that is true."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from homeostat.app.verification.findings import Violation
from homeostat.core.ids import AgentId, ProjectId, TurnId, digest_of
from homeostat.core.limits import PAGE_MAX
from homeostat.core.machines.turn import HeadStatus
from homeostat.core.ports.store import TurnStore
from homeostat.core.records.card import DELIVERABLE
from homeostat.core.records.head import Gate, Head
from homeostat.core.records.turn import Turn, WaitStatus
from homeostat.core.records.view import Outcome, TurnView

CARDS_AT_ONCE: Final = 16

Place = tuple[int, TurnId]
"""A turn in line, behind its number."""


async def heads(store: TurnStore, project: ProjectId) -> AsyncGenerator[Head]:
    """Every agent of a project."""
    after: AgentId | None = None
    while page := await store.heads(project, after=after, limit=PAGE_MAX):
        for view in page:
            after = view.head.agent_id
            yield view.head


async def always_a_head(store: TurnStore) -> list[Violation]:
    """Whoever was ever given a turn has a head: it is made before the first one, and stays."""
    return [
        Violation("always_every_turn_is_in_one_place", agent[1], f"it has {count} turns in {agent[0]}, and no head")
        for agent, count in (await store.headless()).items()
    ]


async def history(store: TurnStore, head: Head) -> AsyncGenerator[list[TurnView]]:
    """An agent's turns from the newest to the oldest, some at a time."""
    before, last = None, None
    while page := await store.history(head.project, head.agent_id, before=before, limit=PAGE_MAX):
        if last is not None:  # a broken chain must not lead in circles
            page = [view for view in page if view.turn.seq < last]
        if not page:
            return
        yield page
        before, last = page[-1].turn.turn_id, page[-1].turn.seq


async def line(store: TurnStore, head: Head) -> list[Place]:
    """What waits for an agent, in the order in which it would be given out."""
    found: list[Place] = []
    after = -1
    while page := await store.inbox(head.project, head.agent_id, after_seq=after, limit=PAGE_MAX):
        found += [(entry.turn.seq, entry.turn.turn_id) for entry in page]
        if len(page) < PAGE_MAX or page[-1].turn.seq <= after:
            break
        after = page[-1].turn.seq
    return found


@dataclass(slots=True)
class Walk:
    """Goes through one agent's turns from the newest to the oldest; only the last one is remembered."""

    head: Head
    line: Sequence[Place]
    found: list[Violation] = field(default_factory=list[Violation])
    turns: int = 0
    _waiting: frozenset[TurnId] = frozenset()
    _missing: set[TurnId] = field(default_factory=set[TurnId])
    _later: TurnView | None = None
    _later_worked: tuple[TurnId, int] | None = None

    def __post_init__(self) -> None:
        self._waiting = frozenset(turn_id for _, turn_id in self.line)
        self._missing = set(self._waiting)
        if self.head.turn_id is not None:
            self._missing.add(self.head.turn_id)
            self._later_worked = (self.head.turn_id, self.head.epoch)  # it was given out under an epoch of its own

    def _say(self, promise: str, about: str, detail: str) -> None:
        self.found.append(Violation(promise, about, detail))

    @property
    def oldest(self) -> Turn | None:
        """The last one that was come by."""
        return None if self._later is None else self._later.turn

    def take(self, page: Sequence[TurnView]) -> None:
        for view in page:
            self.turns += 1
            self._missing.discard(view.turn.turn_id)
            self._always_in_one_place(view)
            self._always_an_unbroken_line(view)
            self._always_growing_epochs(view)
            self._later = view

    def close(self, *, at_rest: bool) -> list[Violation]:
        """There are no more turns."""
        head, promise = self.head, "always_every_turn_is_in_one_place"
        if head.queued != len(self.line):
            self._say(promise, head.agent_id, f"the head counts {head.queued} in line, {len(self.line)} are")
        if any(later <= earlier for earlier, later in pairwise(self.line)):
            self._say(promise, head.agent_id, "what is in line stands there twice, or in another order than it came")
        for turn_id in sorted(self._missing):
            where = "active" if turn_id == head.turn_id else "in line"
            self._say(promise, turn_id, f"{where}, but not in history")
        busy = head.status is not HeadStatus.IDLE or bool(self.line)
        if at_rest and head.gate is Gate.OPEN and busy:
            detail = f"{head.status.value}, {len(self.line)} in line"
            self._say("finally_every_turn_has_a_deliverable", head.agent_id, detail)
        return self.found

    def _always_in_one_place(self, view: TurnView) -> None:
        """A turn is finished, on the head or in line: exactly one of them. Otherwise it is lost, or runs twice."""
        turn_id = view.turn.turn_id
        places = [
            place
            for place, there in (
                ("finished", view.deliverable is not None),
                ("active", self.head.turn_id == turn_id),
                ("in line", turn_id in self._waiting),
            )
            if there
        ]
        if len(places) != 1:
            self._say("always_every_turn_is_in_one_place", turn_id, " and ".join(places) or "nowhere")
        if view.deliverable is not None and any(wait.status is WaitStatus.PENDING for wait in view.waits):
            self._say("always_the_finished_wait_for_nothing", turn_id, "a tool call is still pending")

    def _always_an_unbroken_line(self, view: TurnView) -> None:
        """Numbers follow each other without a gap; only the oldest turns may have been forgotten."""
        promise, turn = "always_an_unbroken_line", view.turn
        if self._later is None:
            if turn.seq != self.head.tail_seq:
                detail = f"the head counts {self.head.tail_seq}, history {turn.seq}"
                self._say(promise, self.head.agent_id, detail)
            return
        later = self._later.turn
        if later.seq != turn.seq + 1 or later.previous_turn_id != turn.turn_id:
            detail = f"number {later.seq} follows {turn.turn_id}, which has number {turn.seq}"
            self._say(promise, later.turn_id, detail)

    def _always_growing_epochs(self, view: TurnView) -> None:
        """Each turn that was worked on has a larger epoch than those before. One stopped in line had none, and one of a
        run lets others pass while that is held.
        """
        promise, end, turn_id = "always_growing_epochs", view.deliverable, view.turn.turn_id
        if end is None:
            return
        if end.epoch > self.head.epoch:
            self._say(promise, turn_id, f"ended under epoch {end.epoch}, the head is at {self.head.epoch}")
        if end.status is Outcome.STOP:
            return
        later, epoch = self._later_worked or (turn_id, end.epoch + 1)
        back = epoch <= end.epoch and (epoch == end.epoch or view.turn.run_id is None)
        if back:
            self._say(promise, later, f"epoch {epoch} follows epoch {end.epoch}")
        if back or end.epoch < epoch:
            self._later_worked = (turn_id, end.epoch)  # the least of those that came later


async def always_kept_for_its_time(store: TurnStore, walk: Walk) -> list[Violation]:
    """The turn before the oldest one there is was forgotten by retention, which remembers up to where it went.

    Where none is left, the head knows which was the last.
    """
    head, oldest = walk.head, walk.oldest
    previous = head.last_turn_id if oldest is None else oldest.previous_turn_id
    if previous is None or previous <= await store.swept():
        return []
    if oldest is not None and await store.turn(oldest.project, previous) is not None:
        return []
    about, behind = (head.agent_id, "nothing") if oldest is None else (oldest.turn_id, f"number {oldest.seq}")
    detail = f"{behind} follows {previous}, which is gone, and retention did not take it"
    return [Violation("always_an_unbroken_line", about, detail)]


async def always_one_deliverable(store: TurnStore) -> list[Violation]:
    """A turn has one card that says it is its deliverable, at the place where everybody looks for it."""
    return [
        Violation("always_true_cards", turn_id, f"it has {count} deliverables besides its own")
        for turn_id, count in (await store.doubled()).items()
    ]


async def true_cards(store: TurnStore, page: Sequence[TurnView]) -> list[Violation]:
    """A deliverable is a card that can be read by its id and holds what its digest says."""
    found: list[Violation] = []
    ended = [(view, view.deliverable) for view in page if view.deliverable is not None]
    for first in range(0, len(ended), CARDS_AT_ONCE):
        some = ended[first : first + CARDS_AT_ONCE]
        cards = await asyncio.gather(*(store.card(view.turn.project, end.card_id) for view, end in some))
        for (view, end), card in zip(some, cards, strict=True):
            if card is None:
                found.append(Violation("always_true_cards", view.turn.turn_id, f"{end.card_id} cannot be read"))
            elif card.author != view.turn.agent_id:
                found.append(Violation("always_true_cards", view.turn.turn_id, f"{card.card_id} is {card.author}'s"))
            elif card.type != DELIVERABLE or digest_of(card.content) != card.digest:
                found.append(Violation("always_true_cards", view.turn.turn_id, f"{card.card_id} is not what it says"))
    return found
