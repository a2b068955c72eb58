"""What can be asked of the kernel: each command is decided by one rule, and answered after its commit."""

from dataclasses import dataclass

from homeostat.core.codec import Json
from homeostat.core.ids import (
    AgentId,
    BoxId,
    CardId,
    InboxId,
    ProjectId,
    RunId,
    Scope,
    ToolCallId,
    TraceId,
    TurnId,
    WorkerId,
)
from homeostat.core.records.card import Card, CardDraft
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AfterExecution, AgentKey, MessageType, ToolCall, Turn, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence


@dataclass(frozen=True, slots=True)
class Idempotency:
    """A caller's promise that a repeated key means the same request."""

    key: str
    fingerprint: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Register:
    """Give an agent a head, if it has none."""

    key: AgentKey
    idempotency: Idempotency | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Enqueue:
    """Accept one message; it becomes one turn."""

    key: AgentKey
    type: MessageType
    payload: Json
    correlation_id: str | None = None
    source: AgentId | None = None
    parent_turn_id: TurnId | None = None
    parent_step_id: str | None = None
    reply_call_id: ToolCallId | None = None
    trace_id: TraceId | None = None
    depth: int = 0
    run_id: RunId | None = None
    context_box_id: BoxId | None = None
    output_box_id: BoxId | None = None
    result_fields: Json | None = None
    idempotency: Idempotency | None = None


@dataclass(frozen=True, slots=True)
class Enqueued:
    inbox_id: InboxId
    turn_id: TurnId
    trace_id: TraceId


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Enter a dispatched turn; None if somebody else did."""

    key: AgentKey
    worker_id: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Dispatch:
    """Give an idle agent its next message, should that have been left undone."""

    key: AgentKey


@dataclass(frozen=True, slots=True, kw_only=True)
class Suspend:
    """Wait for tools, and for turns of other agents, without holding a worker."""

    fence: Fence
    calls: tuple[ToolCall, ...]
    children: tuple[Enqueue, ...] = ()
    cards: tuple[CardDraft, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Bring a result to a waiting turn."""

    key: AgentKey
    turn_id: TurnId
    call_id: ToolCallId
    type: MessageType
    status: WaitStatus
    result: Json
    after_execution: AfterExecution | None = None
    idempotency: Idempotency | None = None


@dataclass(frozen=True, slots=True)
class Reported:
    """Whether the result was news. A late, repeated or foreign one is acknowledged all the same."""

    accepted: bool
    result_card_id: CardId | None = None
    trace_id: TraceId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Deliver:
    """End a turn with its deliverable, and take the agent's next turn along if there is one."""

    fence: Fence
    status: Outcome
    result: Json
    error: Json | None = None
    cards: tuple[CardDraft, ...] = ()
    claim_next: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """End a turn from outside; a turn that is finished already stays as it is."""

    turn: Turn
    reason: str
    actor: str
    idempotency: Idempotency | None = None

    @property
    def key(self) -> AgentKey:
        return self.turn.key


@dataclass(frozen=True, slots=True)
class Stopped:
    stopped: bool
    card_id: CardId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Recover:
    """Take a turn from a worker whose lease ended."""

    fence: Fence
    cause: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """Hand a turn back unharmed; the worker is leaving."""

    fence: Fence


@dataclass(frozen=True, slots=True, kw_only=True)
class SetGate:
    """Open the gate, let it drain, or close it."""

    key: AgentKey
    gate: Gate
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Preempt:
    """Put the active turn back to the front of the queue, fenced off from its worker."""

    key: AgentKey


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreStep:
    """Remember a step's outcome, once."""

    fence: Fence
    name: str
    outcome: Json


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteCards:
    """Append cards to the turn's output."""

    fence: Fence
    cards: tuple[CardDraft, ...]
    idempotency: Idempotency | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SwapBoxes:
    """Point a running turn at other boxes, as compression does."""

    fence: Fence
    context_box_id: BoxId | None
    output_box_id: BoxId | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PutCards:
    """Lay cards into a new box from outside any turn."""

    project: ProjectId
    box_id: BoxId
    cards: tuple[Card, ...]
    idempotency: Idempotency | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Renew:
    """A worker is alive."""

    worker_id: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class EndLease:
    """A worker is gone, by its own word or by its silence."""

    worker_id: WorkerId


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """Outbox rows have been announced and may go."""

    outbox_ids: tuple[Scope, ...]


Command = (
    Register
    | Enqueue
    | Claim
    | Dispatch
    | Suspend
    | Report
    | Deliver
    | Stop
    | Recover
    | Release
    | SetGate
    | Preempt
    | StoreStep
    | WriteCards
    | SwapBoxes
    | PutCards
    | Renew
    | EndLease
    | Published
)
