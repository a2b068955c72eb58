"""Where a worker gets turns from: in process from the kernel, or over HTTP from a server."""

from collections.abc import Callable, Collection
from typing import Protocol

from homeostat.core.codec import Json
from homeostat.core.ids import BoxId, CardId, WorkerId
from homeostat.core.records.card import Card, CardDraft
from homeostat.core.records.turn import AgentKey, Grant, ToolCall
from homeostat.core.records.view import Hydration, Outcome
from homeostat.core.records.work import Ask, Delivered, Fence, Suspended

OnRevoke = Callable[[Fence], None]
"""Told, on the event loop and without waiting, that a turn is no longer this worker's: cancel it, write no more."""


class WorkerSession(Protocol):
    """One worker's standing with a source of turns.

    Everything that writes for a turn raises `StaleEpoch` once the turn was stopped, recovered, preempted or finished:
    then stop at once, nothing was changed. It raises `Unavailable` when the outcome is unknown; repeating the call
    with the same arguments is safe.
    """

    @property
    def worker_id(self) -> WorkerId: ...

    @property
    def lease_seconds(self) -> float:
        """How long turns stay with a worker that does not renew."""
        ...

    async def host(self, agents: Collection[AgentKey]) -> None:
        """Take turns of more agents."""
        ...

    async def claim(self, limit: int, seconds: float) -> list[Grant]:
        """Up to `limit` turns, waiting up to `seconds` for the first; empty when the time is over.

        One claim at a time. Cancelling it loses no turn: what was granted meanwhile comes with the next claim, or goes
        back when the session closes.
        """
        ...

    async def renew(self, seconds: float = 0.0) -> None:
        """Beat once, then listen for revocations for up to `seconds`, returning early after one.

        Call it in a loop with `lease_seconds / LEASE_BEATS`. A beat that does not get through raises `Unavailable`;
        once none got through for a whole lease, every turn held is revoked.
        """
        ...

    async def hydrate(self, grant: Grant) -> Hydration:
        """What a worker needs to begin or continue: stored steps, context, and what the turn wrote before.

        A source that sees that the turn is no longer this worker's raises `StaleEpoch`.
        """
        ...

    async def card(self, grant: Grant, card_id: CardId) -> Card | None:
        """One card of the turn's project, such as a result named by a wait."""
        ...

    async def step(self, grant: Grant, name: str, outcome: Json) -> None:
        """Remember a step's outcome; the first one stored is the one that is replayed."""
        ...

    async def write(self, grant: Grant, cards: tuple[CardDraft, ...]) -> tuple[CardId, ...]:
        """Append cards to the turn's output."""
        ...

    async def swap_boxes(
        self, grant: Grant, *, context_box_id: BoxId | None = None, output_box_id: BoxId | None = None
    ) -> None:
        """Point the turn at other boxes, as compression does; None leaves one as it is."""
        ...

    async def suspend(
        self,
        grant: Grant,
        calls: tuple[ToolCall, ...] = (),
        *,
        asks: tuple[Ask, ...] = (),
        cards: tuple[CardDraft, ...] = (),
    ) -> Suspended:
        """Wait for tools and for other agents' turns, holding nothing.

        Unless the answer is `ready`, the turn is no longer this worker's: it is granted again, to any worker, when the
        last result is in. A call the turn waited for before keeps its deadline and its result, and is not sent again.
        """
        ...

    async def deliver(
        self,
        grant: Grant,
        *,
        status: Outcome,
        result: Json,
        error: Json | None = None,
        cards: tuple[CardDraft, ...] = (),
        recording: Json | None = None,
        claim_next: bool = False,
    ) -> Delivered:
        """End the turn with its deliverable; with `claim_next` the agent's next turn comes along if one waits.

        `recording` is what the ledger of a run needs to know besides; it is kept with the turn's steps.

        Raises `ResultFieldsMissing` when a success lacks what was asked for; the turn is then still running.
        """
        ...

    async def release(self, grant: Grant) -> None:
        """Hand a turn back unharmed; it costs no attempt."""
        ...

    async def emit(self, grant: Grant, chunk: Json) -> None:
        """Stream a chunk of output; whoever is not listening misses it."""
        ...

    async def close(self) -> None:
        """Leave. Turns still held go back at once, collected or not, and cost no attempt."""
        ...


class TurnSource(Protocol):
    """Gives turns to workers."""

    async def register(self, agents: Collection[AgentKey]) -> None:
        """See that these agents exist, so that messages can be sent to them."""
        ...

    async def open(self, hosted: Collection[AgentKey], on_revoke: OnRevoke) -> WorkerSession:
        """Begin to take turns of these agents."""
        ...
