"""What can be asked of the kernel: each command is decided by one rule, and answered after its commit."""

from typing import ClassVar

from msgspec import Struct

from homeostat.core.clock import Millis
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
from homeostat.core.records.enforcement import Mandate
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AfterExecution, AgentKey, MessageType, ToolCall, Turn, Wait, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.records.work import Fence


class Idempotency(Struct, frozen=True, gc=False):
    """A caller's promise that a repeated key means the same request."""

    key: str
    fingerprint: str

    def of(self, sender: str) -> "Idempotency":
        """The same promise, made by this sender: what another says under the key is another's."""
        return Idempotency(f"{self.key}\n{sender}", self.fingerprint)  # no key has more than a line

    @property
    def said(self) -> str:
        """The key as the caller knows it."""
        return self.key.partition("\n")[0]


class Register(Struct, frozen=True, kw_only=True, gc=False):
    """Give an agent a head, if it has none."""

    key: AgentKey
    idempotency: Idempotency | None = None


class Enqueue(Struct, frozen=True, kw_only=True, gc=False):
    """Accept one message; it becomes one turn. Whoever names that turn may ask again without making a second one."""

    key: AgentKey
    type: MessageType
    payload: Json
    turn_id: TurnId | None = None
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
    context_until: int | None = None


class Enqueued(Struct, frozen=True, gc=False):
    inbox_id: InboxId
    turn_id: TurnId
    trace_id: TraceId


class EnqueueAll(Struct, frozen=True, kw_only=True, gc=False):
    """Accept several messages to one agent, in order, or none. They are tasks of one run, and name their turns."""

    idempotency: ClassVar[None] = None

    messages: tuple[Enqueue, ...]

    @property
    def key(self) -> AgentKey:
        return self.messages[0].key


class Claim(Struct, frozen=True, kw_only=True, gc=False):
    """Enter a dispatched turn; None if somebody else did."""

    idempotency: ClassVar[None] = None

    key: AgentKey
    worker_id: WorkerId


class Dispatch(Struct, frozen=True, kw_only=True, gc=False):
    """Give an idle agent its next message, should that have been left undone."""

    idempotency: ClassVar[None] = None

    key: AgentKey


class Suspend(Struct, frozen=True, kw_only=True, gc=False):
    """Wait for tools, and for turns of other agents, without holding a worker."""

    fence: Fence
    calls: tuple[ToolCall, ...]
    children: tuple[Enqueue, ...] = ()
    cards: tuple[CardDraft, ...] = ()
    idempotency: Idempotency | None = None

    @property
    def key(self) -> AgentKey:
        return self.fence.key


class Report(Struct, frozen=True, kw_only=True, gc=False):
    """Bring a result to a waiting turn."""

    key: AgentKey
    turn_id: TurnId
    call_id: ToolCallId
    type: MessageType
    status: WaitStatus
    result: Json
    after_execution: AfterExecution | None = None
    idempotency: Idempotency | None = None


class Reported(Struct, frozen=True, gc=False, omit_defaults=True):
    """Whether the result was news. A late, repeated or foreign one is acknowledged all the same."""

    accepted: bool
    result_card_id: CardId | None = None
    trace_id: TraceId | None = None
    repeated: bool = False  # it was news when this was asked first, under the same key


class CloseCall(Struct, frozen=True, kw_only=True, gc=False):
    """Close a call that is still open although its turn has ended; one that is waited for stays as it is."""

    idempotency: ClassVar[None] = None

    wait: Wait

    @property
    def key(self) -> AgentKey:
        return (self.wait.project, self.wait.agent_id)


class Deliver(Struct, frozen=True, kw_only=True, gc=False):
    """End a turn with its deliverable, and take the agent's next turn along if there is one."""

    idempotency: ClassVar[None] = None

    fence: Fence
    status: Outcome
    result: Json
    error: Json | None = None
    cards: tuple[CardDraft, ...] = ()
    recording: Json | None = None
    claim_next: bool = False

    @property
    def key(self) -> AgentKey:
        return self.fence.key


class Stop(Struct, frozen=True, kw_only=True, gc=False):
    """End a turn from outside; a turn that is finished already stays as it is."""

    turn: Turn
    reason: str
    actor: str
    idempotency: Idempotency | None = None

    @property
    def key(self) -> AgentKey:
        return self.turn.key


class Stopped(Struct, frozen=True, gc=False):
    stopped: bool
    card_id: CardId | None


class Recover(Struct, frozen=True, kw_only=True, gc=False):
    """Take a turn from a worker whose lease ended."""

    idempotency: ClassVar[None] = None

    fence: Fence
    cause: str

    @property
    def key(self) -> AgentKey:
        return self.fence.key


class Release(Struct, frozen=True, kw_only=True, gc=False):
    """Hand a turn back unharmed; the worker is leaving."""

    fence: Fence
    idempotency: Idempotency | None = None

    @property
    def key(self) -> AgentKey:
        return self.fence.key


class SetGate(Struct, frozen=True, kw_only=True, gc=False):
    """Open the gate, let it drain, or close it."""

    idempotency: ClassVar[None] = None

    key: AgentKey
    gate: Gate
    reason: str | None = None
    mandate: Mandate | None = None


class Preempt(Struct, frozen=True, kw_only=True, gc=False):
    """Put the active turn back to the front of the queue, fenced off from its worker; only a certain one, if named."""

    idempotency: ClassVar[None] = None

    key: AgentKey
    turn_id: TurnId | None = None


class StoreStep(Struct, frozen=True, kw_only=True, gc=False):
    """Remember a step's outcome, once."""

    idempotency: ClassVar[None] = None

    fence: Fence
    name: str
    outcome: Json

    @property
    def key(self) -> AgentKey:
        return self.fence.key


class WriteCards(Struct, frozen=True, kw_only=True, gc=False):
    """Append cards to the turn's output."""

    fence: Fence
    cards: tuple[CardDraft, ...]
    idempotency: Idempotency | None = None

    @property
    def key(self) -> AgentKey:
        return self.fence.key


class SwapBoxes(Struct, frozen=True, kw_only=True, gc=False):
    """Point a running turn at other boxes, as compression does."""

    idempotency: ClassVar[None] = None

    fence: Fence
    context_box_id: BoxId | None
    output_box_id: BoxId | None
    context_until: int | None = None

    @property
    def key(self) -> AgentKey:
        return self.fence.key


class PutCards(Struct, frozen=True, kw_only=True, gc=False):
    """Lay cards into a new box from outside any turn; a fork refers to those `of` another, which has to stay."""

    key: ClassVar[None] = None

    project: ProjectId
    box_id: BoxId
    cards: tuple[Card, ...]
    of: BoxId | None = None
    idempotency: Idempotency | None = None


class Renew(Struct, frozen=True, kw_only=True, gc=False):
    """A worker is alive."""

    key: ClassVar[None] = None
    idempotency: ClassVar[None] = None

    worker_id: WorkerId


class EndLease(Struct, frozen=True, kw_only=True, gc=False):
    """A worker is gone, by its own word or by its silence: of that, the lease that was found `over` is the proof."""

    key: ClassVar[None] = None
    idempotency: ClassVar[None] = None

    worker_id: WorkerId
    over: Millis | None = None


class Published(Struct, frozen=True, kw_only=True, gc=False):
    """Outbox rows have been announced and may go."""

    key: ClassVar[None] = None
    idempotency: ClassVar[None] = None

    outbox_ids: tuple[Scope, ...]


Command = (
    Register
    | Enqueue
    | EnqueueAll
    | Claim
    | Dispatch
    | Suspend
    | Report
    | CloseCall
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
