"""What one flush writes: everything in it becomes durable together, or nothing does."""

from dataclasses import dataclass, field

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, BoxId, ProjectId, Scope, TurnId, WorkerId
from homeostat.core.records.card import Card
from homeostat.core.records.event import Event
from homeostat.core.records.head import Head
from homeostat.core.records.turn import AgentKey, OpenTurn, Step, Turn, Wait

InboxKey = tuple[ProjectId, AgentId, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """The first answer to a request that carried an idempotency key."""

    project: ProjectId
    key: str
    fingerprint: str
    answer: Json
    created_at_ms: Millis


@dataclass(frozen=True, slots=True)
class OutboxRow:
    """The events of one flush, in one row."""

    outbox_id: Scope
    events: tuple[Event, ...]


@dataclass(slots=True)
class Writes:
    """The set-wise difference a flush makes; no row is in it twice.

    A head is swapped from the version it was read at to the next one, and from no other.
    """

    heads: dict[AgentKey, tuple[int, Head]] = field(default_factory=dict[AgentKey, tuple[int, Head]])
    new_heads: dict[AgentKey, Head] = field(default_factory=dict[AgentKey, Head])
    turns: dict[TurnId, Turn] = field(default_factory=dict[TurnId, Turn])
    turn_boxes: dict[TurnId, Turn] = field(default_factory=dict[TurnId, Turn])
    inbox_put: dict[InboxKey, OpenTurn] = field(default_factory=dict[InboxKey, OpenTurn])
    inbox_drop: set[InboxKey] = field(default_factory=set[InboxKey])
    new_waits: dict[tuple[TurnId, str], Wait] = field(default_factory=dict[tuple[TurnId, str], Wait])
    waits: dict[tuple[TurnId, str], Wait] = field(default_factory=dict[tuple[TurnId, str], Wait])
    cards: list[Card] = field(default_factory=list[Card])
    steps: list[Step] = field(default_factory=list[Step])
    box_owners: dict[BoxId, AgentKey] = field(default_factory=dict[BoxId, AgentKey])
    leases: dict[WorkerId, Millis] = field(default_factory=dict[WorkerId, Millis])
    leases_ended: set[WorkerId] = field(default_factory=set[WorkerId])
    answers: dict[tuple[ProjectId, str], Answer] = field(default_factory=dict[tuple[ProjectId, str], Answer])
    outbox: OutboxRow | None = None
    outbox_drop: set[Scope] = field(default_factory=set[Scope])

    def __bool__(self) -> bool:
        return bool(
            self.heads
            or self.new_heads
            or self.turns
            or self.turn_boxes
            or self.inbox_put
            or self.inbox_drop
            or self.new_waits
            or self.waits
            or self.cards
            or self.steps
            or self.box_owners
            or self.leases
            or self.leases_ended
            or self.answers
            or self.outbox
            or self.outbox_drop
        )


@dataclass(frozen=True, slots=True)
class Saved:
    """What became of a save: the agents whose heads had moved, and keys answered before. Empty means durable."""

    stale: frozenset[AgentKey] = frozenset()
    answered: bool = False

    @property
    def ok(self) -> bool:
        return not self.stale and not self.answered
