"""What passes between a server and those who keep an agent's memory or run tools elsewhere."""

from typing import Annotated

import msgspec

from homeostat.core.limits import CLAIM_WAIT_SECONDS_MAX, TOOL_CALLS_BATCH_MAX
from homeostat.core.wire.fields import Body, Instant, Name, Shape, Value


class MemoryShape(Shape, frozen=True, kw_only=True):
    """Everything an agent remembers."""

    agent_id: str
    values: dict[str, msgspec.Raw]


class MemoryBody(Body, frozen=True, kw_only=True):
    """What an agent remembers from now on, and what it forgets; all of it or nothing."""

    set: dict[Name, msgspec.Raw] = msgspec.field(default_factory=dict)
    forget: tuple[Name, ...] = ()


class ToolBody(Body, frozen=True, kw_only=True):
    """A tool that agents may be offered."""

    name: Name
    description: Annotated[str, msgspec.Meta(max_length=4_000, description="What a model is told of it.")] = ""
    parameters: Annotated[msgspec.Raw, msgspec.Meta(description="A JSON Schema of its arguments.")] = msgspec.field(
        default_factory=lambda: msgspec.Raw(b'{"type":"object"}')
    )


class ToolsBody(Body, frozen=True, kw_only=True):
    """Tools to make known."""

    tools: tuple[ToolBody, ...]


class ToolShape(Shape, frozen=True, kw_only=True):
    """A tool as it is known."""

    name: str
    description: str
    parameters: Value


class ToolsShape(Shape, frozen=True, kw_only=True):
    """Every tool of a project."""

    items: tuple[ToolShape, ...]


class CallRef(Body, frozen=True, kw_only=True):
    """One call, named."""

    turn_id: Name
    tool_call_id: Name


class CallsBody(Body, frozen=True, kw_only=True):
    """What a tool service could do next."""

    tools: Annotated[tuple[Name, ...], msgspec.Meta(min_length=1, max_length=256)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=TOOL_CALLS_BATCH_MAX)] = 1
    wait: Annotated[float, msgspec.Meta(ge=0, le=CLAIM_WAIT_SECONDS_MAX, description="Seconds to wait for one.")] = 0.0
    holding: Annotated[
        tuple[CallRef, ...], msgspec.Meta(max_length=1_000, description="Calls that are still being made.")
    ] = ()


class CallShape(Shape, frozen=True, kw_only=True):
    """A pointer to a call: its arguments are on its card."""

    agent_id: str
    turn_id: str
    tool_call_id: str
    tool: str
    tool_call_card_id: str | None
    deadline: Instant
    deadline_ms: int


class CallsShape(Shape, frozen=True, kw_only=True):
    """Calls to make. Report each to POST /v1/turns/{turn_id}/results."""

    calls: tuple[CallShape, ...]
