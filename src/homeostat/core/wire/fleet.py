"""The fleet as clients see it: rows, intervals, and the updates that keep rows current."""

from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec

from homeostat.core.limits import CURSOR_MAX, HISTORY_SAMPLES_MAX, PAGE_MAX, TAG_CHARS_MAX, TYPE_CHARS_MAX
from homeostat.core.machines.liveness import Liveness
from homeostat.core.machines.phase import Phase
from homeostat.core.records.fleet import ReportedStatus
from homeostat.core.wire.answers import HeadShape
from homeostat.core.wire.fields import Body, FilterText, Instant, Name, Shape


class AgentRow(Shape, frozen=True, kw_only=True):
    """One agent. `status` is what it says of itself as long as it is heard, else stale or dead.

    `headline` is the one word for lists, of its presence, its phase, questions about it and its turn. `cost_usd_today`
    is what it spent since midnight, UTC. An agent that asks is told neither, and the feed has neither.
    """

    agent_id: str
    agent_type: str
    tags: tuple[str, ...]
    hostname: str | None
    pid: int | None
    version: str | None
    registered_at: Instant
    presence: Liveness
    presence_since: Instant
    phase: Phase
    status: str
    reported_status: ReportedStatus | None
    last_seen_at: Instant
    timestamp: datetime | None
    started_at: datetime | None
    uptime_seconds: float | None
    last_action: str | None
    last_action_at: datetime | None
    items_processed: int | None
    queue_depth: int | None
    processing_time_avg_ms: float | None
    error_count: int | None
    memory_mb: float | None
    push_interval_seconds: float
    push_interval_source: str
    cost_usd_today: float | None = None
    headline: str | None = None


class AgentDetail(AgentRow, frozen=True, kw_only=True):
    """One agent with its active turn: whether it is heard and whether it works are two facts."""

    head: HeadShape | None


class HeartbeatReceipt(Shape, frozen=True, kw_only=True):
    """The answer to a heartbeat. The interval is the one to keep from now on."""

    received: bool
    push_interval_seconds: float
    server_time: Instant


class IntervalBody(Body, frozen=True, kw_only=True):
    """How often to push."""

    push_interval_seconds: float


class IntervalShape(Shape, frozen=True, kw_only=True):
    """How often an agent is to push, and which setting says so."""

    push_interval_seconds: float
    source: str


class Deregistered(Shape, frozen=True, kw_only=True):
    """Whether this call took the agent off the register, or it was off already."""

    agent_id: str
    deregistered: bool


class SampleShape(Shape, frozen=True, kw_only=True):
    """One heartbeat of the past, at the time the server received it."""

    timestamp: Instant
    status: ReportedStatus
    items_processed: int
    queue_depth: int
    processing_time_avg_ms: float
    error_count: int
    memory_mb: float


class HistoryPage(Shape, frozen=True, kw_only=True):
    """An agent's last heartbeats, oldest first."""

    agent_id: str
    items: tuple[SampleShape, ...]


class AgentsQuery(msgspec.Struct, frozen=True, kw_only=True, rename={"agent_type": "type"}):
    """Which agents."""

    agent_type: Annotated[str, msgspec.Meta(max_length=TYPE_CHARS_MAX, description="Of this type.")] | None = None
    tag: Annotated[str, msgspec.Meta(max_length=TAG_CHARS_MAX, description="With this tag.")] | None = None
    status: (
        Annotated[
            str,
            msgspec.Meta(
                description="alive, stale, dead, registered, or what agents say: running, idle, error, stopping."
            ),
        ]
        | None
    ) = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=PAGE_MAX, description="How many at most.")] = PAGE_MAX
    cursor: Annotated[str, msgspec.Meta(max_length=400, description="As in the Link header.")] | None = None
    q: FilterText | None = None


class HistoryQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of an agent's past."""

    since: Annotated[datetime, msgspec.Meta(tz=True, description="Only what was received from then on.")] | None = None
    limit: Annotated[int, msgspec.Meta(ge=1, le=HISTORY_SAMPLES_MAX)] = HISTORY_SAMPLES_MAX


class UpdateEvent(StrEnum):
    """What an update tells."""

    REGISTERED = "registered"
    HEARTBEAT = "heartbeat"
    STALE = "stale"
    DEAD = "dead"
    DEREGISTERED = "deregistered"
    EXPIRED = "expired"


class HeartbeatUpdate(Shape, frozen=True, kw_only=True):
    """The part of a row that a heartbeat changes."""

    seq: int
    event: UpdateEvent = UpdateEvent.HEARTBEAT
    agent_id: str
    presence: Liveness = Liveness.ALIVE
    status: ReportedStatus
    reported_status: ReportedStatus
    last_seen_at: Instant
    timestamp: datetime
    started_at: datetime
    uptime_seconds: float
    last_action: str
    last_action_at: datetime | None
    items_processed: int
    queue_depth: int
    processing_time_avg_ms: float
    error_count: int
    memory_mb: float
    push_interval_seconds: float


class PresenceUpdate(Shape, frozen=True, kw_only=True):
    """The part of a row that silence or a departure changes."""

    seq: int
    event: UpdateEvent
    agent_id: str
    presence: Liveness
    presence_since: Instant
    status: str


class RegistrationUpdate(Shape, frozen=True, kw_only=True):
    """A whole row, of an agent that is new or has introduced itself again."""

    seq: int
    event: UpdateEvent = UpdateEvent.REGISTERED
    agent_id: str
    agent: AgentRow


class SnapshotMessage(Shape, frozen=True, kw_only=True, tag_field="type", tag="snapshot"):
    """Every agent that fits the subscription, as of `seq`. Large fleets come in several parts."""

    stream: str
    seq: int
    part: int
    parts: int
    agents: list[AgentRow]


class DeltaMessage(Shape, frozen=True, kw_only=True, tag_field="type", tag="delta"):
    """What changed. It follows on what a reader has if its `since` is not beyond the reader's `seq`."""

    stream: str
    since: int
    seq: int
    updates: list[msgspec.Raw]


class SubscribeMessage(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="action",
    tag="subscribe",
    rename={"agent_type": "type"},
    forbid_unknown_fields=True,
):
    """A reader wants to see other agents: those of a type, with a tag, or all."""

    agent_type: Annotated[str, msgspec.Meta(max_length=TYPE_CHARS_MAX)] | None = None
    tag: Annotated[str, msgspec.Meta(max_length=TAG_CHARS_MAX)] | None = None


class FeedQuery(msgspec.Struct, frozen=True, kw_only=True, rename={"agent_type": "type"}):
    """Which agents a reader begins with, and from where it would go on: a stream and the last `seq` it has."""

    agent_type: Annotated[str, msgspec.Meta(max_length=TYPE_CHARS_MAX)] | None = None
    tag: Annotated[str, msgspec.Meta(max_length=TAG_CHARS_MAX)] | None = None
    project: Name | None = None
    stream: Annotated[str, msgspec.Meta(max_length=100)] | None = None
    since: Annotated[int, msgspec.Meta(ge=0, le=CURSOR_MAX)] | None = None
