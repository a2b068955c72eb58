"""The fleet as clients see it: rows, and the updates that keep rows current."""

from datetime import datetime
from enum import StrEnum

import msgspec

from homeostat.core.machines.liveness import Liveness
from homeostat.core.machines.phase import Phase
from homeostat.core.records.fleet import ReportedStatus


class AgentRow(msgspec.Struct, frozen=True, kw_only=True):
    """One agent. `status` is its headline: what it says of itself as long as it is heard, else stale or dead."""

    agent_id: str
    agent_type: str
    tags: tuple[str, ...]
    hostname: str | None
    pid: int | None
    registered_at: str
    presence: Liveness
    presence_since: str
    phase: Phase
    status: str
    reported_status: ReportedStatus | None
    last_seen_at: str
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


class UpdateEvent(StrEnum):
    """What an update tells."""

    REGISTERED = "registered"
    HEARTBEAT = "heartbeat"
    STALE = "stale"
    DEAD = "dead"
    DEREGISTERED = "deregistered"
    EXPIRED = "expired"


class HeartbeatUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a row that a heartbeat changes."""

    seq: int
    event: UpdateEvent = UpdateEvent.HEARTBEAT
    agent_id: str
    presence: Liveness = Liveness.ALIVE
    status: ReportedStatus
    reported_status: ReportedStatus
    last_seen_at: str
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


class PresenceUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a row that silence or a departure changes."""

    seq: int
    event: UpdateEvent
    agent_id: str
    presence: Liveness
    presence_since: str
    status: str


class RegistrationUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """A whole row, of an agent that is new or has introduced itself again."""

    seq: int
    event: UpdateEvent = UpdateEvent.REGISTERED
    agent_id: str
    agent: AgentRow


class SnapshotMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="snapshot"):
    """Every agent that fits the subscription, as of `seq`. Large fleets come in several parts."""

    stream: str
    seq: int
    part: int
    parts: int
    agents: list[AgentRow]


class DeltaMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="delta"):
    """What changed. It follows on what a reader has if its `since` is not beyond the reader's `seq`."""

    stream: str
    since: int
    seq: int
    updates: list[msgspec.Raw]


class SubscribeMessage(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", tag="subscribe"):
    """A reader wants to see other agents: those of a type, with a tag, or all."""

    agent_type: str | None = None
    tag: str | None = None
