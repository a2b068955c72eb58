"""What callers get."""

from homeostat.core.machines.turn import HeadStatus, ItemStatus
from homeostat.core.records.head import Gate
from homeostat.core.records.turn import AfterExecution, MessageType, TurnStatus, WaitStatus
from homeostat.core.records.view import Outcome
from homeostat.core.wire.fields import Instant, Shape, Value


class Accepted(Shape, frozen=True, kw_only=True):
    """A message is in the inbox, durably. For one that reports to a turn, `accepted` says whether it was news."""

    inbox_id: str
    turn_id: str
    trace_id: str
    accepted: bool = True
    result_card_id: str | None = None


class ReportedShape(Shape, frozen=True, kw_only=True):
    """Whether a result was news; a late, repeated or foreign one is acknowledged all the same."""

    accepted: bool
    result_card_id: str | None


class StoppedShape(Shape, frozen=True, kw_only=True):
    """Whether this call ended the turn, and its deliverable."""

    stopped: bool
    card_id: str | None


class RequeuedShape(Shape, frozen=True, kw_only=True):
    """A turn that was put back to the front of its agent's line, and the epoch the agent is at now."""

    turn_id: str
    agent_id: str
    epoch: int
    gate: str


class TurnFacts(Shape, frozen=True, kw_only=True):
    """The message that opened a turn."""

    turn_id: str
    inbox_id: str
    project: str
    agent_id: str
    seq: int
    type: MessageType
    payload: Value
    correlation_id: str | None
    source_agent_id: str | None
    parent_turn_id: str | None
    parent_step_id: str | None
    reply_call_id: str | None
    trace_id: str
    depth: int
    run_id: str | None
    context_box_id: str | None
    output_box_id: str
    result_fields: Value
    previous_turn_id: str | None
    created_at: Instant


class WaitShape(Shape, frozen=True, kw_only=True):
    """A tool call a turn waits for, or waited for."""

    tool_call_id: str
    tool: str
    status: WaitStatus
    after_execution: AfterExecution
    step_id: str | None
    call_card_id: str | None
    result_card_id: str | None
    created_at: Instant
    deadline_at: Instant
    answered_at: Instant | None


class DeliverableShape(Shape, frozen=True, kw_only=True):
    """How a turn ended."""

    turn_id: str
    agent_id: str
    card_id: str
    output_box_id: str
    status: Outcome
    result: Value
    error: Value
    epoch: int
    finished_at: Instant


class TurnShape(TurnFacts, frozen=True, kw_only=True):
    """A turn as it stands now."""

    status: TurnStatus
    item_status: ItemStatus
    epoch: int | None
    starts: int
    losses: int
    worker_id: str | None
    lease_expires_at: Instant | None
    waits: tuple[WaitShape, ...]
    deliverable: DeliverableShape | None


class TurnsPage(Shape, frozen=True, kw_only=True):
    """An agent's turns, newest first."""

    items: tuple[TurnShape, ...]
    next_cursor: str | None


class HeadShape(Shape, frozen=True, kw_only=True):
    """An agent's one active turn, its gate, and how much waits. Nothing runs without a lease."""

    project: str
    agent_id: str
    status: HeadStatus
    epoch: int
    version: int
    turn_id: str | None
    worker_id: str | None
    lease_expires_at: Instant | None
    gate: Gate
    gate_reason: str | None
    queued: int
    waiting_tool_count: int
    resume_deadline: Instant | None
    starts: int
    losses: int
    cards: int
    tail_seq: int
    last_turn_id: str | None
    since: Instant


class InboxItem(TurnFacts, frozen=True, kw_only=True):
    """A message that waits or is being worked on."""

    status: ItemStatus
    starts: int
    losses: int


class InboxPage(Shape, frozen=True, kw_only=True):
    """What an agent has before it: the active item, then the line in order."""

    agent_id: str
    queued: int
    active: InboxItem | None
    items: tuple[InboxItem, ...]
    next_cursor: str | None


class CardShape(Shape, frozen=True, kw_only=True):
    """One immutable piece of content."""

    card_id: str
    project: str
    scope: str
    position: int
    type: str
    content: Value
    digest: str
    author: str | None
    created_at: Instant
    reference: str | None = None


class BoxPage(Shape, frozen=True, kw_only=True):
    """The cards of a box, in order."""

    box_id: str
    items: tuple[CardShape, ...]
    next_cursor: str | None


class BoxMade(Shape, frozen=True, kw_only=True):
    """A new box."""

    box_id: str


class EdgeShape(Shape, frozen=True, kw_only=True):
    """One message between two parties."""

    edge_id: str
    project: str
    primitive: str
    phase: str
    source_agent_id: str | None
    target_agent_id: str
    turn_id: str
    parent_turn_id: str | None
    tool_call_id: str | None
    correlation_id: str | None
    trace_id: str
    depth: int
    created_at: Instant


class EdgesPage(Shape, frozen=True, kw_only=True):
    """Who caused what."""

    items: tuple[EdgeShape, ...]
    next_cursor: str | None


class Registered(Shape, frozen=True, kw_only=True):
    """An agent is known, and may be sent messages. Its key is shown this once; the server keeps a digest."""

    agent_id: str
    push_interval_seconds: float
    api_key: str


class Problem(Shape, frozen=True, kw_only=True):
    """What went wrong, as RFC 9457 has it. Further members carry the facts of the case."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    hint: str
    trace_id: str
