"""What is known of a turn: the message that opened it, its waits, its steps and the grant to work on it."""

from enum import StrEnum

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
    ToolCallId,
    TraceId,
    TurnId,
    WorkerId,
    box_of,
    inbox_of,
)

AgentKey = tuple[ProjectId, AgentId]
"""What names an agent across projects; batches are sorted by it."""


class MessageType(StrEnum):
    """What an inbox message asks for."""

    TURN = "turn"
    UI_ACTION = "ui_action"
    JOIN_REQUEST = "join_request"
    TOOL_RESULT = "tool_result"
    TIMEOUT = "timeout"
    STOP = "stop"
    JOIN_RESPONSE = "join_response"


OPENS_A_TURN = frozenset({MessageType.TURN, MessageType.UI_ACTION, MessageType.JOIN_REQUEST})
"""One of these enqueued is one turn; the others report to a turn that exists."""


class AfterExecution(StrEnum):
    """What a turn does once its tool results are in."""

    SUSPEND = "suspend"
    TERMINATE = "terminate"


class WaitStatus(StrEnum):
    """Whether a tool call was answered, and how."""

    PENDING = "pending"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"


class TurnStatus(StrEnum):
    """A turn as one word: where its message waits, what its head does, or how it ended."""

    QUEUED = "queued"
    DISPATCHED = "dispatched"
    RUNNING = "running"
    SUSPENDED = "suspended"
    SUCCESS = "success"
    FAILED = "failed"
    STOP = "stop"


class Turn(Struct, frozen=True, gc=False):
    """One enqueued message. Written once; only its box pointers may be replaced."""

    turn_id: TurnId
    project: ProjectId
    agent_id: AgentId
    seq: int
    type: MessageType
    payload: Json
    correlation_id: str | None
    source: AgentId | None
    parent_turn_id: TurnId | None
    parent_step_id: str | None
    reply_call_id: ToolCallId | None
    trace_id: TraceId
    depth: int
    run_id: RunId | None
    context_box_id: BoxId | None
    output_box_id: BoxId | None
    result_fields: Json | None
    previous_turn_id: TurnId | None
    created_at_ms: Millis
    context_until: int | None = None  # how far the context box went when the turn was pointed at it

    @property
    def inbox_id(self) -> InboxId:
        return inbox_of(self.turn_id)

    @property
    def key(self) -> AgentKey:
        return (self.project, self.agent_id)

    @property
    def output_box(self) -> BoxId:
        """Where the turn's cards are read from: a rolling box if it was given one, else its own."""
        return self.output_box_id or box_of(self.turn_id)


class Wait(Struct, frozen=True, gc=False):
    """One tool call a turn waits for. Its deadline is set once and never moves."""

    turn_id: TurnId
    call_id: ToolCallId
    project: ProjectId
    agent_id: AgentId
    tool: str
    status: WaitStatus
    after_execution: AfterExecution
    step_id: str | None
    call_card_id: CardId | None
    result_card_id: CardId | None
    created_at_ms: Millis
    deadline_ms: Millis
    answered_at_ms: Millis | None


class OpenTurn(Struct, frozen=True, gc=False):
    """An unfinished turn with what it has been through; kept by its head, or by its place in the queue."""

    turn: Turn
    starts: int = 0
    losses: int = 0
    cards: int = 0
    waits: tuple[Wait, ...] = ()

    @property
    def fresh(self) -> bool:
        """Nobody has worked on it yet, so there are no steps to look for."""
        return self.starts == 0


class Step(Struct, frozen=True, gc=False):
    """The stored outcome of one durable step."""

    project: ProjectId
    turn_id: TurnId
    name: str
    outcome: Json
    created_at_ms: Millis


class Grant(Struct, frozen=True, gc=False):
    """Leave to work on a turn: valid for this worker under this epoch, until its lease ends."""

    turn: Turn
    epoch: int
    worker_id: WorkerId
    fresh: bool
    waits: tuple[Wait, ...] = ()


class ToolCall(Struct, frozen=True, gc=False):
    """A tool call a worker wants to wait for."""

    call_id: ToolCallId
    tool: str
    args: Json
    timeout_seconds: float | None = None
    after_execution: AfterExecution = AfterExecution.SUSPEND
    step_id: str | None = None
