"""What the kernel asks of a store: load mailboxes, save one flush atomically, and answer readers."""

from collections.abc import Collection
from typing import Protocol

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, BoxId, CardId, ProjectId, RunId, Scope, TraceId, TurnId, WorkerId
from homeostat.core.records.box import BoxEnding
from homeostat.core.records.card import Card
from homeostat.core.records.head import Mailbox
from homeostat.core.records.turn import AgentKey, OpenTurn, Turn
from homeostat.core.records.view import Deliverable, Due, Edge, HeadView, Hydration, TurnView
from homeostat.core.records.work import Fence
from homeostat.core.records.writes import Answer, OutboxRow, Saved, Writes


class TurnStore(Protocol):
    """Keeps turns durable. `save` is the only way to change what lives, and is all or nothing.

    Every method may raise `StoreUnavailable`. From a `save` that means the outcome is unknown.
    """

    @property
    def lanes(self) -> int:
        """How many saves it takes at once to good effect."""
        ...

    async def load(self, agents: Collection[AgentKey]) -> dict[AgentKey, Mailbox]:
        """Read mailboxes; an agent that is not registered is missing from the answer."""
        ...

    async def save(self, writes: Writes) -> Saved:
        """Make a flush durable, unless a head moved, a key was answered or a box it names ended meanwhile: then change
        nothing.
        """
        ...

    async def recall(self, keys: Collection[tuple[ProjectId, str]]) -> dict[tuple[ProjectId, str], Answer]:
        """Look up the first answers to idempotency keys."""
        ...

    async def box_owner(self, project: ProjectId, box_id: BoxId) -> AgentKey | None:
        """Who may write to a box, or nobody yet; `NOBODY` where it has ended and is being taken away."""
        ...

    async def box_length(self, project: ProjectId, box_id: BoxId) -> int | None:
        """The last position taken in a box, or None where there is no such box."""
        ...

    async def box_until(self, project: ProjectId, box_id: BoxId) -> int | None:
        """How far a box goes now, for whoever means to read it as it is now later; None where there is no such box.

        That is the last position taken, or its complement (`~position`) while nothing lies at 0: boxes grow at their
        end, but the end of a turn comes to lie at 0 of the turn's own.
        """
        ...

    async def due(self, now: Millis, *, unclaimed: tuple[Millis, Millis], lease_ms: int, limit: int) -> Due:
        """Everything that is late, at most `limit` of each kind.

        `unclaimed` bounds when a turn that nobody entered was dispatched: after the first instant, up to the second.
        What began more than a lease from now was dated by a wrong clock; such calls are found in rounds.
        """
        ...

    async def held(self, worker_id: WorkerId) -> list[tuple[Fence, Millis]]:
        """The turns a worker is working on as far as the store knows, and since when."""
        ...

    async def runs_held(self) -> set[RunId]:
        """The runs of which no turn is given out until they are resumed."""
        ...

    async def dispatched(self, agents: Collection[AgentKey], limit: int) -> list[AgentKey]:
        """Which of these agents have a turn that waits for a worker."""
        ...

    async def registered(self, agents: Collection[AgentKey]) -> set[AgentKey]:
        """Which of these agents there are."""
        ...

    async def turn(self, project: ProjectId, turn_id: TurnId) -> TurnView | None: ...

    async def deliverables(self, project: ProjectId, turns: Collection[TurnId]) -> dict[TurnId, Deliverable]:
        """How these turns ended; those that have not are left out."""
        ...

    async def head(self, project: ProjectId, agent_id: AgentId) -> HeadView | None: ...

    async def heads(self, project: ProjectId, *, after: AgentId | None, limit: int) -> list[HeadView]: ...

    async def turns_counted(self, since: TurnId) -> dict[ProjectId, int]:
        """How many turns each project has whose ids are not below this one, for whoever means to read them all.

        Whatever is kept under a project's name makes it one, in any room.
        """
        ...

    async def headless(self) -> dict[AgentKey, int]:
        """Agents that have turns and no head, of which there should be none; how many turns each."""
        ...

    async def doubled(self) -> dict[TurnId, int]:
        """Turns that have other deliverables than the one they ended with, of which there should be none; how many."""
        ...

    async def inbox(self, project: ProjectId, agent_id: AgentId, *, after_seq: int, limit: int) -> list[OpenTurn]:
        """What waits for an agent, in order."""
        ...

    async def history(
        self, project: ProjectId, agent_id: AgentId, *, before: TurnId | None, limit: int
    ) -> list[TurnView]:
        """An agent's turns, newest first."""
        ...

    async def recent(self, project: ProjectId, *, before: TurnId | None, limit: int) -> list[TurnView]:
        """The turns of all agents, newest first."""
        ...

    async def hydrate(self, turn: Turn, *, fresh: bool) -> Hydration: ...

    async def card(self, project: ProjectId, card_id: CardId) -> Card | None: ...

    async def box(self, project: ProjectId, box_id: BoxId, *, after: int, limit: int) -> list[Card] | None: ...

    async def edges(
        self,
        project: ProjectId,
        *,
        trace_id: TraceId | None,
        turn_id: TurnId | None,
        after: str | None,
        limit: int,
    ) -> list[Edge]: ...

    async def outbox(self, before: Scope, limit: int) -> list[OutboxRow]:
        """Rows nobody has published yet, oldest first."""
        ...

    async def expire(self, before: Scope, limit: int) -> int:
        """Forget turns that ended before the instant of a scope, with all that belongs to them, and older answers.

        Cards that another box refers to stay, and so does every card of a box that has a writer. At most `limit` of
        either; returns how many turns and answers there were.
        """
        ...

    async def end_box(self, project: ProjectId, box_id: BoxId) -> BoxEnding:
        """End a box, unless it is needed: then change nothing, and say what for.

        From then on there is no such box to whoever reads, and no save that names it succeeds. Its cards are `clear`'s.
        """
        ...

    async def clear(self, limit: int) -> int:
        """Take away cards of boxes that have ended, at most `limit`, and cards of forgotten turns that were kept for
        these boxes alone; returns how many of the former there were.
        """
        ...

    async def swept(self) -> TurnId:
        """The youngest turn that was forgotten so, or an empty name: nothing behind it was."""
        ...

    async def lease(self, worker_id: WorkerId) -> Millis | None:
        """When a worker's lease ends, if it holds one."""
        ...
