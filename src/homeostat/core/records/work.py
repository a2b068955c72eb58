"""What passes between a worker and whoever gives it turns: the fence it writes behind, and the answers it gets."""

from msgspec import Struct

from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, BoxId, CardId, ToolCallId, TurnId, WorkerId
from homeostat.core.records.turn import AgentKey, Grant, Wait


class Fence(Struct, frozen=True, gc=False):
    """The right to write for a turn: worth nothing once the turn moved on."""

    key: AgentKey
    turn_id: TurnId
    epoch: int
    worker_id: WorkerId


class Ask(Struct, frozen=True, kw_only=True, gc=False):
    """Another agent's turn that a turn wants to wait for. Lineage, trace and depth follow from the turn that asks."""

    call_id: ToolCallId
    agent_id: AgentId
    payload: Json
    timeout_seconds: float | None = None
    step_id: str | None = None
    context_box_id: BoxId | None = None
    result_fields: Json | None = None


class Suspended(Struct, frozen=True, gc=False):
    """The waits as they stand. `ready` means every one is answered already and the turn is still running."""

    waits: tuple[Wait, ...]
    ready: bool


class Delivered(Struct, frozen=True, gc=False):
    """The end of a turn, durable; `next` is the agent's following turn, granted in the same breath."""

    card_id: CardId
    next: Grant | None


def fence_of(grant: Grant) -> Fence:
    return Fence(grant.turn.key, grant.turn.turn_id, grant.epoch, grant.worker_id)
