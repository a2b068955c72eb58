"""What readers are shown: a turn with its outcome, a deliverable, an edge, a due thing."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import msgspec

from homeostat.core.clock import Millis
from homeostat.core.codec import NULL, Json, from_json
from homeostat.core.ids import AgentId, BoxId, CardId, ProjectId, ToolCallId, TraceId, TurnId, WorkerId, box_of, turn_of
from homeostat.core.machines.turn import ItemStatus
from homeostat.core.records.card import Card
from homeostat.core.records.head import Head
from homeostat.core.records.turn import AgentKey, Turn, TurnStatus, Wait


class Outcome(StrEnum):
    """How a turn ended."""

    SUCCESS = "success"
    FAILED = "failed"
    STOP = "stop"


class Deliverable(msgspec.Struct, frozen=True, gc=False):
    """The end of a turn, as its reader gets it."""

    turn_id: TurnId
    agent_id: AgentId
    card_id: CardId
    output_box_id: BoxId
    status: Outcome
    result: Json
    error: Json | None
    epoch: int
    finished_at_ms: Millis

    @property
    def value(self) -> Any:
        """The result as Python values."""
        return from_json(self.result)

    @property
    def succeeded(self) -> bool:
        return self.status is Outcome.SUCCESS


class _Content(msgspec.Struct):
    """What the kernel writes into a deliverable card."""

    status: Outcome
    epoch: int
    result: msgspec.Raw
    error: msgspec.Raw


_content = msgspec.json.Decoder(_Content)


def read_deliverable(card: Card, output_box_id: BoxId | None = None) -> Deliverable:
    """A deliverable card as its reader gets it."""
    content = _content.decode(card.content)
    turn_id = turn_of(card.scope)
    error = Json(bytes(content.error).decode())
    return Deliverable(
        turn_id=turn_id,
        agent_id=card.author or AgentId(""),
        card_id=card.card_id,
        output_box_id=output_box_id or box_of(turn_id),
        status=content.status,
        result=Json(bytes(content.result).decode()),
        error=None if error == NULL else error,
        epoch=content.epoch,
        finished_at_ms=card.created_at_ms,
    )


@dataclass(frozen=True, slots=True)
class TurnView:
    """A turn as it stands now."""

    turn: Turn
    status: TurnStatus
    item_status: ItemStatus
    epoch: int | None
    starts: int
    losses: int
    worker_id: WorkerId | None
    lease_expires_at_ms: Millis | None
    waits: tuple[Wait, ...]
    deliverable: Deliverable | None


@dataclass(frozen=True, slots=True)
class HeadView:
    """A head with the lease that backs it: nothing is shown as running without one."""

    head: Head
    lease_expires_at_ms: Millis | None


class Edge(msgspec.Struct, frozen=True, gc=False):
    """One message between two parties: who caused what, in which phase."""

    edge_id: str
    project: ProjectId
    primitive: str
    phase: str
    source_agent_id: AgentId | None
    target_agent_id: AgentId
    turn_id: TurnId
    parent_turn_id: TurnId | None
    call_id: ToolCallId | None
    correlation_id: str | None
    trace_id: TraceId
    depth: int
    created_at_ms: Millis


@dataclass(frozen=True, slots=True)
class Due:
    """What the watchdog found, and when it should look again.

    `dead_workers` come with the ends of their leases. `lost` are turns of dead workers, `unclaimed` dispatched turns
    that nobody entered (with when they were dispatched), `stranded` idle agents with mail, of which there should be
    none. `misdated` are open tool calls that began in the future.
    """

    dead_workers: tuple[tuple[WorkerId, Millis], ...] = ()
    lost: tuple[tuple[AgentKey, TurnId, int, WorkerId], ...] = ()
    timeouts: tuple[Wait, ...] = ()
    unclaimed: tuple[tuple[AgentKey, Millis], ...] = ()
    stranded: tuple[AgentKey, ...] = ()
    misdated: tuple[Wait, ...] = ()
    next_ms: Millis | None = None


@dataclass(frozen=True, slots=True)
class Hydration:
    """All a worker needs to continue a turn: stored steps and the cards it may read.

    The context is `gone` where retention took the box, and what was in it, before the turn came to read it.
    """

    steps: dict[str, Json]
    context: tuple[Card, ...]
    output: tuple[Card, ...]
    context_gone: bool = False
