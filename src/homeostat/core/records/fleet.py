"""What the fleet knows of an agent: its registration, its heartbeats, its interval and how it stands.

What every heartbeat and every verdict makes is a msgspec structure that the garbage collector does not follow: as
dataclasses these records made it a quarter of what a heartbeat costs.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Annotated

from msgspec import Meta, Struct

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.limits import METRIC_MAX, NAME_CHARS_MAX, TAG_CHARS_MAX, TAGS_MAX, TYPE_CHARS_MAX
from homeostat.core.machines.liveness import Liveness

Count = Annotated[int, Meta(ge=0, le=int(METRIC_MAX))]
Measure = Annotated[float, Meta(ge=0, le=METRIC_MAX)]
Tag = Annotated[str, Meta(max_length=TAG_CHARS_MAX)]
Tags = Annotated[tuple[Tag, ...], Meta(max_length=TAGS_MAX)]


class ReportedStatus(StrEnum):
    """What an agent says of itself. It is reported, never authoritative."""

    RUNNING = "running"
    IDLE = "idle"
    ERROR = "error"
    STOPPING = "stopping"


class AgentStatus(Struct, frozen=True, kw_only=True, gc=False):
    """One heartbeat, as the agent sends it. Its times are kept as reported and decide nothing."""

    agent_id: Annotated[AgentId, Meta(min_length=1, max_length=NAME_CHARS_MAX)]
    agent_type: Annotated[str, Meta(max_length=TYPE_CHARS_MAX)]
    tags: Tags
    timestamp: datetime
    started_at: datetime
    uptime_seconds: Measure
    status: ReportedStatus
    last_action: str
    last_action_at: datetime | None = None
    items_processed: Count
    queue_depth: Count
    processing_time_avg_ms: Measure
    error_count: Count
    memory_mb: Measure
    push_interval_seconds: Measure


class Departure(StrEnum):
    """Why an agent is no longer part of the fleet."""

    DEREGISTERED = "deregistered"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """An agent's entry in the register. Of its key, and of the request that entered it, only digests are known."""

    agent_id: AgentId
    project: ProjectId
    agent_type: str
    tags: tuple[str, ...]
    hostname: str | None
    pid: int | None
    key_digest: str
    registered_at_ms: Millis
    gone_at_ms: Millis | None = None
    gone_why: Departure | None = None
    request_digest: str | None = None
    revision: int = 0
    version: str | None = None

    @property
    def gone(self) -> bool:
        return self.gone_at_ms is not None


class IntervalScope(StrEnum):
    """Whom a push interval is set for, most specific first."""

    AGENT = "agent"
    TAG = "tag"
    TYPE = "type"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class IntervalSetting:
    """A push interval somebody set; None where they took it back."""

    scope: IntervalScope
    name: str
    seconds: float | None
    revision: int = 0


@dataclass(frozen=True, slots=True)
class PushInterval:
    """How often an agent is to push, and which setting says so."""

    seconds: float
    source: str

    @property
    def ms(self) -> int:
        return round(self.seconds * 1000)


class Beat(Struct, frozen=True, gc=False):
    """A heartbeat with what the server adds: when it was received and which interval was given in return."""

    status: AgentStatus
    received_ms: Millis
    interval_ms: int


@dataclass(frozen=True, slots=True)
class Admission:
    """An agent a status keeper should hold, with the interval it was given."""

    registration: Registration
    interval_ms: int


@dataclass(frozen=True, slots=True)
class Standing:
    """How an agent stands. Silence counts from `counted_ms`, which is later than `received_ms` if nobody listened."""

    agent_id: AgentId
    presence: Liveness
    since_ms: Millis
    received_ms: Millis
    counted_ms: Millis
    interval_ms: int
    status: AgentStatus | None = None


class Silence(Struct, frozen=True, gc=False):
    """An agent whose next verdict is due. `due_ms` is what a mark compares, so a heartbeat in between wins."""

    agent_id: AgentId
    presence: Liveness
    counted_ms: Millis
    interval_ms: int
    due_ms: Millis


class Mark(Struct, frozen=True, gc=False):
    """A verdict on a silence: what the agent is from now on."""

    silence: Silence
    presence: Liveness
    since_ms: Millis


@dataclass(frozen=True, slots=True)
class Roll:
    """What a sweep finds: the silent, or when to look again if there are none. `lost`: the keeper forgot everybody."""

    silent: tuple[Silence, ...] = ()
    next_ms: Millis | None = None
    lost: bool = False


class Sample(Struct, frozen=True, kw_only=True, gc=False):
    """A point of an agent's history, at the time the server received it."""

    received_ms: Millis
    status: ReportedStatus
    items_processed: int
    queue_depth: int
    processing_time_avg_ms: float
    error_count: int
    memory_mb: float


@dataclass(frozen=True, slots=True)
class Census:
    """How many agents are how."""

    alive: int = 0
    stale: int = 0
    dead: int = 0


def sample_of(beat: Beat) -> Sample:
    status = beat.status
    return Sample(
        received_ms=beat.received_ms,
        status=status.status,
        items_processed=status.items_processed,
        queue_depth=status.queue_depth,
        processing_time_avg_ms=status.processing_time_avg_ms,
        error_count=status.error_count,
        memory_mb=status.memory_mb,
    )
