"""What callers send."""

from typing import Annotated, Literal

import msgspec

from homeostat.core.limits import (
    DELIVERABLE_WAIT_SECONDS_MAX,
    HOSTNAME_CHARS_MAX,
    NAME_CHARS_MAX,
    PAGE_DEFAULT,
    PAGE_MAX,
    TAGS_MAX,
    VERSION_CHARS_MAX,
)
from homeostat.core.records.turn import AfterExecution
from homeostat.core.wire.fields import Body, FilterText, Hex32, Name, Value, absent

Cursor = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=2 * NAME_CHARS_MAX,
        pattern=r"^[^\x00-\x1f\x7f]+(?![\s\S])",
        description="`next_cursor` of the page before.",
    ),
]
Limit = Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX, description="How many at most.")]


class ResultField(msgspec.Struct, frozen=True, kw_only=True):
    """One field that a deliverable should have."""

    name: Name
    required: bool = True


class Message(Body, frozen=True, kw_only=True):
    """A message for an agent. One that opens a turn is one turn; the others report to a turn that exists."""

    type: Annotated[
        str,
        msgspec.Meta(
            description="turn, ui_action or join_request open a turn; tool_result, timeout, join_response and stop "
            "are about the turn that the payload names.",
            examples=["turn"],
        ),
    ]
    payload: Value = absent()
    correlation_id: Name | None = None
    context_box_id: Annotated[Name | None, msgspec.Meta(description="A box the turn may read, as it is now.")] = None
    output_box_id: Annotated[
        Name | None, msgspec.Meta(description="A box that serves as rolling memory; one agent writes to it.")
    ] = None
    result_fields: Annotated[
        msgspec.Raw, msgspec.Meta(description="A list of {name, required?} that a successful deliverable must cover.")
    ] = absent()
    run_id: Name | None = None
    source_agent_id: Name | None = None
    parent_turn_id: Name | None = None
    parent_step_id: Name | None = None
    depth: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    trace_id: Annotated[Hex32 | None, msgspec.Meta(description="Else the traceparent header's, else a new one.")] = None


class ToolResult(Body, frozen=True, kw_only=True):
    """What a tool has to say to the turn that waits for it."""

    tool_call_id: Name
    status: Literal["success", "error", "timeout"] = "success"
    result: Value = absent()
    after_execution: AfterExecution | None = None


class StopOrder(Body, frozen=True, kw_only=True):
    """Why a turn has to end."""

    reason: Annotated[str, msgspec.Meta(max_length=2_000)] = "stopped by a caller"
    actor: Name = "api"


class CardBody(Body, frozen=True, kw_only=True):
    """One card to be laid into a box."""

    type: Name
    content: Value = absent()


class BoxBody(Body, frozen=True, kw_only=True):
    """A box made from outside any turn."""

    cards: Annotated[tuple[CardBody, ...], msgspec.Meta(max_length=1_000)] = ()
    author: Name | None = None


class Registration(Body, frozen=True, kw_only=True):
    """An agent that introduces itself; with its id and its key, one that comes back as who it was."""

    agent_type: Name
    tags: (
        Annotated[tuple[Name, ...], msgspec.Meta(max_length=TAGS_MAX, description="Else those it had before.")] | None
    ) = None
    hostname: Annotated[str, msgspec.Meta(max_length=HOSTNAME_CHARS_MAX)] | None = None
    pid: Annotated[int, msgspec.Meta(ge=0, le=1 << 31)] | None = None
    version: (
        Annotated[
            str,
            msgspec.Meta(max_length=VERSION_CHARS_MAX, description="Which version of itself it is, in its own words."),
        ]
        | None
    ) = None
    agent_id: Annotated[Name | None, msgspec.Meta(description="Else the server makes one up.")] = None
    api_key: Annotated[
        Name | None, msgspec.Meta(description="The agent's key, unless it comes as `Authorization: Bearer`.")
    ] = None


class Page(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of a list."""

    limit: Limit = PAGE_DEFAULT
    cursor: Cursor | None = None


class SoughtPage(Page, frozen=True, kw_only=True):
    """Which part of a list, and which of its things."""

    q: FilterText | None = None


class Patience(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait for something that is not there yet."""

    wait: Annotated[
        float, msgspec.Meta(ge=0, le=DELIVERABLE_WAIT_SECONDS_MAX, description="Seconds to wait for the end.")
    ] = 0.0


class EdgeQuery(Page, frozen=True, kw_only=True):
    """Whose edges: one trace's or one turn's."""

    trace_id: Hex32 | None = None
    turn_id: Name | None = None
