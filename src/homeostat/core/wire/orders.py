"""Orders to an agent's gate, and what an order would reach, as they travel."""

from typing import Annotated

import msgspec

from homeostat.core.machines.phase import Phase
from homeostat.core.machines.run import RunStatus
from homeostat.core.records.head import Gate
from homeostat.core.wire.fields import Body, Instant, Name, Shape

Reason = Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]


class OrderBody(Body, frozen=True, kw_only=True):
    """Why, and on whose word."""

    reason: Reason
    actor: Name = "operator"


class CordonShape(Shape, frozen=True, kw_only=True):
    """Whether an agent gets new turns, and what it still has in hand."""

    agent_id: str
    cordoned: bool
    reason: str | None
    actor: str | None
    since: Instant | None
    gate: Gate
    gate_reason: str | None
    active_turn_id: str | None
    queued: int
    open_calls: int
    drained: bool


class ReachShape(Shape, frozen=True, kw_only=True):
    """One agent that an order would reach."""

    agent_id: str
    phase: Phase
    gate: Gate
    active_turn_id: str | None
    queued: int
    open_calls: int


class RunReachShape(Shape, frozen=True, kw_only=True):
    """One run that an order would reach: how it stands, its tasks by status, and what it has spent."""

    run_id: str
    goal: str
    status: RunStatus
    tasks: dict[str, int]
    usd_spent: float


class BlastShape(Shape, frozen=True, kw_only=True):
    """What an order would do; nothing was done."""

    dry_run: bool
    verb: str
    effect: str
    undo: str
    agents: list[ReachShape]
    runs: list[RunReachShape]
    more: Annotated[int, msgspec.Meta(description="Runs and agents beyond those that are shown.")]
    rehearsal: Annotated[
        str,
        msgspec.Meta(
            description="What a treatment would have done to the agent's logged calls, where that can be told."
        ),
    ] = ""
