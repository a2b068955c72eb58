"""The whole at a glance, as it is sent: counts, traffic, vitals of the past, heads."""

from typing import Annotated

import msgspec

from homeostat.core.limits import EVENTS_TAIL_MAX, PAGE_MAX, VITALS_KEPT_MAX
from homeostat.core.wire.answers import HeadShape
from homeostat.core.wire.bodies import Cursor, Limit
from homeostat.core.wire.fields import FilterText, Instant, Shape


class TrafficShape(Shape, frozen=True, kw_only=True):
    """Model calls within a time. Latencies are bounds that half, or 95 %, of the calls stayed below."""

    calls: int
    errors: int
    tokens_in: int
    tokens_out: int
    cost_usd: float
    latency_ms_p50: float | None
    latency_ms_p95: float | None


class MinuteShape(TrafficShape, frozen=True, kw_only=True):
    """The calls of one minute."""

    at: Instant


class TrafficPage(Shape, frozen=True, kw_only=True):
    """The last hour of model calls as this process saw it, by minute and by model."""

    since: Instant
    total: TrafficShape
    minutes: list[MinuteShape]
    models: dict[str, TrafficShape]


class Overview(Shape, frozen=True, kw_only=True):
    """How everything stands now."""

    at: Instant
    project: str
    version: str
    stream: str
    agents: int
    presence: dict[str, int]
    phases: dict[str, int]
    approvals_pending: int
    traffic_since: Instant
    traffic: TrafficShape
    calls_open: int
    store: str
    simulated: bool


class VitalsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """How much of the past."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=VITALS_KEPT_MAX)] = VITALS_KEPT_MAX


class VitalsShape(Shape, frozen=True, kw_only=True):
    """One sample of the past; null where something was not known."""

    at: Instant
    latency_ms: float | None
    tokens_in: float | None
    tokens_out: float | None
    cost_usd: float | None
    tool_calls: int
    retries: int
    error: bool


class VitalsPage(Shape, frozen=True, kw_only=True):
    """An agent's last vitals, oldest first."""

    agent_id: str
    samples: list[VitalsShape]


class TodayShape(Shape, frozen=True, kw_only=True):
    """What an agent spent today, and its last latencies, oldest first; null where a call had none."""

    agent_id: str
    calls: int
    cost_usd: float
    latency_ms: list[float | None]


class TodayPage(Shape, frozen=True, kw_only=True):
    """What agents spent since midnight in UTC, in order of agents."""

    since: Instant
    agents: list[TodayShape]
    next_cursor: str | None


class TodayQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the day's sums, in order of agents."""

    limit: Limit = PAGE_MAX
    cursor: Cursor | None = None


class HeadsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which part of the heads, in order of agents."""

    limit: Limit = PAGE_MAX
    cursor: Cursor | None = None
    q: FilterText | None = None


class HeadsPage(Shape, frozen=True, kw_only=True):
    """The active turns and queues of agents, a part of them."""

    heads: list[HeadShape]
    next_cursor: str | None


class EventsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which events, and behind which one."""

    kinds: (
        Annotated[str, msgspec.Meta(max_length=200, description="Kinds, separated by commas; all where none is named.")]
        | None
    ) = None
    last_event_id: (
        Annotated[str, msgspec.Meta(max_length=100, description="As the Last-Event-ID header, which outranks it.")]
        | None
    ) = None
    tail: Annotated[int, msgspec.Meta(ge=0, le=EVENTS_TAIL_MAX, description="How many past events to begin with.")] = 0
    follow: Annotated[bool, msgspec.Meta(description="False: end with what has happened so far.")] = True
    q: FilterText | None = None
