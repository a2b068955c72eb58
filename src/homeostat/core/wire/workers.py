"""What a worker and a server say to each other."""

from typing import Annotated

import msgspec

from homeostat.core.limits import CLAIM_BATCH_MAX, CLAIM_WAIT_SECONDS_MAX, HOSTED_PER_SESSION_MAX, WAITS_PER_TURN_MAX
from homeostat.core.records.turn import AfterExecution
from homeostat.core.records.view import Outcome
from homeostat.core.wire.answers import CardShape, TurnFacts, WaitShape
from homeostat.core.wire.bodies import CardBody
from homeostat.core.wire.fields import Body, Name, Shape, Value, absent

Wait = Annotated[float, msgspec.Meta(ge=0, le=CLAIM_WAIT_SECONDS_MAX, description="Seconds to hold the request open.")]
Cards = Annotated[tuple[CardBody, ...], msgspec.Meta(max_length=1_000)]


class AgentRef(Body, frozen=True, kw_only=True):
    """One agent, by name."""

    agent_id: Name
    project: Annotated[Name | None, msgspec.Meta(description="Else the project of the request.")] = None


class HeldTurn(Body, frozen=True, kw_only=True):
    """A turn a worker believes to hold."""

    project: Name
    agent_id: Name
    turn_id: Name
    epoch: int


Agents = Annotated[tuple[AgentRef, ...], msgspec.Meta(max_length=HOSTED_PER_SESSION_MAX)]
TurnIds = Annotated[tuple[Name, ...], msgspec.Meta(max_length=HOSTED_PER_SESSION_MAX)]
Holding = Annotated[tuple[HeldTurn, ...], msgspec.Meta(max_length=HOSTED_PER_SESSION_MAX)]


class SessionBody(Body, frozen=True, kw_only=True):
    """A worker that begins, or comes back after the server forgot it, with the turns it still works on."""

    agents: Agents
    worker_id: Name | None = None
    holding: Holding = ()


class SessionShape(Shape, frozen=True, kw_only=True):
    """A worker's standing. What it held and holds no longer is listed as revoked."""

    worker_id: str
    lease_seconds: float
    revoked: tuple[HeldTurn, ...]


class HostBody(Body, frozen=True, kw_only=True):
    """More agents for a worker."""

    agents: Agents


class ClaimBody(Body, frozen=True, kw_only=True):
    """How many turns a worker would take.

    `holding` names the turns it works on: one that was granted in an answer that got lost is granted again.
    """

    limit: Annotated[int, msgspec.Meta(ge=1, le=CLAIM_BATCH_MAX)] = 1
    wait: Wait = 0.0
    holding: TurnIds = ()


class GrantShape(Shape, frozen=True, kw_only=True):
    """Leave to work on a turn."""

    turn: TurnFacts
    epoch: int
    worker_id: str
    fresh: bool
    waits: tuple[WaitShape, ...] = ()


class Grants(Shape, frozen=True, kw_only=True):
    """Turns for a worker; none when the time is over."""

    grants: tuple[GrantShape, ...]


class RenewBody(Body, frozen=True, kw_only=True):
    """A worker is alive and says what it works on. A turn it was granted long ago and never heard of goes back.

    `held` says also under which epochs, and is answered with whatever of it is no longer the worker's. A worker that
    names turns in `holding` alone does not hear of those that another server granted it.
    """

    wait: Wait = 0.0
    holding: TurnIds = ()
    held: Holding = ()


class Revoked(Shape, frozen=True, kw_only=True):
    """Turns that are no longer the worker's."""

    revoked: tuple[HeldTurn, ...]


class FencedBody(Body, frozen=True, kw_only=True):
    """Whose turn it is, under which epoch: worth nothing once the turn moved on."""

    agent_id: Name
    epoch: int


class StepBody(FencedBody, frozen=True, kw_only=True):
    """A step's outcome."""

    name: Name
    outcome: Value = absent()


class WriteBody(FencedBody, frozen=True, kw_only=True):
    """Cards for the turn's output."""

    cards: Cards


class CardIds(Shape, frozen=True, kw_only=True):
    """Where the cards went."""

    card_ids: tuple[str, ...]


class SwapBody(FencedBody, frozen=True, kw_only=True):
    """Other boxes for a running turn."""

    context_box_id: Name | None = None
    output_box_id: Name | None = None


class CallBody(Body, frozen=True, kw_only=True):
    """A tool call to wait for."""

    tool_call_id: Name
    tool: Name
    args: Value = absent()
    timeout_seconds: float | None = None
    after_execution: AfterExecution = AfterExecution.SUSPEND
    step_id: Name | None = None


class AskBody(Body, frozen=True, kw_only=True):
    """Another agent's turn to wait for."""

    tool_call_id: Name
    agent_id: Name
    payload: Value = absent()
    timeout_seconds: float | None = None
    step_id: Name | None = None
    context_box_id: Name | None = None
    result_fields: Value = absent()


class SuspendBody(FencedBody, frozen=True, kw_only=True):
    """What a turn waits for."""

    calls: Annotated[tuple[CallBody, ...], msgspec.Meta(max_length=WAITS_PER_TURN_MAX)] = ()
    asks: Annotated[tuple[AskBody, ...], msgspec.Meta(max_length=WAITS_PER_TURN_MAX)] = ()
    cards: Cards = ()


class SuspendedShape(Shape, frozen=True, kw_only=True):
    """The waits as they stand; `ready` means that all are answered and the turn is still running."""

    waits: tuple[WaitShape, ...]
    ready: bool


class DeliverBody(FencedBody, frozen=True, kw_only=True):
    """The end of a turn."""

    status: Outcome = Outcome.SUCCESS
    result: Value = absent()
    error: Value = absent()
    cards: Cards = ()
    recording: Value = absent()
    claim_next: bool = False


class DeliveredShape(Shape, frozen=True, kw_only=True):
    """The deliverable, and the agent's next turn if one waited and was asked for."""

    card_id: str
    next: GrantShape | None


class ChunkBody(FencedBody, frozen=True, kw_only=True):
    """A piece of output for whoever listens."""

    chunk: Value


class HydrationQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Whether anybody worked on the turn before."""

    fresh: bool = False


class HydrationShape(Shape, frozen=True, kw_only=True):
    """Stored steps, and the cards a turn may read. A context is gone that retention took before its turn read it."""

    steps: dict[str, Value]
    context: tuple[CardShape, ...]
    output: tuple[CardShape, ...]
    context_gone: bool = False
