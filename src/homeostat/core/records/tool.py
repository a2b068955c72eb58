"""A tool as others know it, and a call that waits to be made."""

from dataclasses import dataclass

from homeostat.core.clock import Millis
from homeostat.core.codec import Json
from homeostat.core.ids import AgentId, CardId, ProjectId, ToolCallId, TurnId

CallKey = tuple[TurnId, ToolCallId]


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """What a model is told of a tool: what it does, and what it takes (a JSON Schema)."""

    name: str
    description: str
    parameters: Json


@dataclass(frozen=True, slots=True)
class OpenCall:
    """The pointer a tool service gets: which turn waits for which call, until when, and where the arguments are."""

    project: ProjectId
    agent_id: AgentId
    turn_id: TurnId
    call_id: ToolCallId
    tool: str
    call_card_id: CardId | None
    deadline_ms: Millis

    @property
    def key(self) -> CallKey:
        return (self.turn_id, self.call_id)
