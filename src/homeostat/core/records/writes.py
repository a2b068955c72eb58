"""What one flush writes: everything in it becomes durable together, or nothing does."""

from msgspec import Struct

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, BoxId, ProjectId, RunId, Scope, TurnId, WorkerId
from homeostat.core.records.box import BoxKey
from homeostat.core.records.card import Card
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.event import Event
from homeostat.core.records.head import Head
from homeostat.core.records.run import GateState, Start
from homeostat.core.records.turn import AgentKey, OpenTurn, Step, Turn, Wait

InboxKey = tuple[ProjectId, AgentId, int]


class Answer(Struct, frozen=True, gc=False):
    """The first answer to a request that carried an idempotency key."""

    project: ProjectId
    key: str
    fingerprint: str
    answer: Json
    created_at_ms: Millis


class OutboxRow(Struct, frozen=True, gc=False):
    """The events of one flush, in one row."""

    outbox_id: Scope
    events: tuple[Event, ...]


class Writes(Struct):
    """The set-wise difference a flush makes; no row is in it twice.

    A head is swapped from the version it was read at to the next one, and from no other. `runs` are those whose
    turns are made or begun, each with the most that is started of it: its gate has to let that pass at the moment
    of the commit. No mandate of `mandates` may be void by then, and no box of `boxes` may have ended. A lease that
    ends is left alone if another end than the one that was seen stands in the store by then.
    """

    heads: dict[AgentKey, tuple[int, Head]] = {}
    new_heads: dict[AgentKey, Head] = {}
    turns: dict[TurnId, Turn] = {}
    turn_boxes: dict[TurnId, Turn] = {}
    inbox_put: dict[InboxKey, OpenTurn] = {}
    inbox_drop: set[InboxKey] = set()
    new_waits: dict[tuple[TurnId, str], Wait] = {}
    waits: dict[tuple[TurnId, str], Wait] = {}
    cards: list[Card] = []
    steps: list[Step] = []
    box_owners: dict[BoxId, AgentKey] = {}
    leases: dict[WorkerId, Millis] = {}
    leases_ended: dict[WorkerId, Millis | None] = {}
    answers: dict[tuple[ProjectId, str], Answer] = {}
    outbox: OutboxRow | None = None
    outbox_drop: set[Scope] = set()
    runs: dict[RunId, Start] = {}
    mandates: set[Mandate] = set()
    boxes: set[BoxKey] = set()

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


class Saved(Struct, frozen=True, gc=False):
    """What became of a save: the agents whose heads had moved, keys answered before, runs that may not start what
    it would have started, each with how its gate stands, mandates that are void, and boxes that are gone. Empty
    means durable.
    """

    stale: frozenset[AgentKey] = frozenset()
    answered: bool = False
    refused: tuple[tuple[RunId, GateState], ...] = ()
    void: frozenset[Mandate] = frozenset()
    gone: frozenset[BoxKey] = frozenset()

    @property
    def ok(self) -> bool:
        return not self.stale and not self.answered and not self.refused and not self.void and not self.gone
