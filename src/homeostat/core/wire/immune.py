"""Vitals, incidents and approvals as they are sent."""

from datetime import datetime
from typing import Annotated

import msgspec

from homeostat.core.limits import APPROVED_HOURS_MAX, NAME_CHARS_MAX, PAGE_DEFAULT
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.enforcement import Effect, Strategy, Verb
from homeostat.core.records.immune import (
    Applied,
    ApprovalStatus,
    Diagnosis,
    RemedyAction,
    Spread,
    Stance,
)
from homeostat.core.wire.bodies import Cursor, Limit
from homeostat.core.wire.fields import Body, FilterText, Instant, Name, Shape

REASON_CHARS_MAX = 1_000
SAMPLES_MAX = 1_000
TOOLS_MAX = 256

Reason = Annotated[str, msgspec.Meta(max_length=REASON_CHARS_MAX)]
Word = Annotated[str, msgspec.Meta(max_length=NAME_CHARS_MAX)]


class ToolCallBody(Body, frozen=True, kw_only=True):
    """A tool the agent called; equal arguments have equal digests."""

    name: Name
    arguments_hash: Word = ""


class SampleBody(Body, frozen=True, kw_only=True):
    """What one model call, or one piece of work, says of an agent. What is not known is left out."""

    sample_id: Annotated[Name | None, msgspec.Meta(description="One that comes again is counted once.")] = None
    at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    latency_ms: float | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost_usd: float | None = None
    retries: int = 0
    error: bool = False
    model: Word | None = None
    provider: Word | None = None
    prompt_hash: Word | None = None
    tools: Annotated[tuple[ToolCallBody, ...], msgspec.Meta(max_length=TOOLS_MAX)] = ()


class VitalsBody(Body, frozen=True, kw_only=True):
    """Samples of one agent, oldest first."""

    agent_id: Name
    samples: Annotated[list[SampleBody], msgspec.Meta(max_length=SAMPLES_MAX)]


class VitalsTaken(Shape, frozen=True, kw_only=True):
    """How many samples were taken, and why the others were not."""

    accepted: int
    refused: dict[str, int]


class ReasonBody(Body, frozen=True, kw_only=True):
    """Why, and on whose word."""

    reason: Reason = ""
    actor: Name = "operator"


class ApproveBody(ReasonBody, frozen=True, kw_only=True):
    """Why, on whose word, and for how long the same action on the same agent needs no other answer."""

    hours: Annotated[float, msgspec.Meta(ge=0, le=APPROVED_HOURS_MAX)] = 0.0


class EvidenceShape(Shape, frozen=True, kw_only=True):
    """One thing that was seen."""

    kind: str
    sigma: float
    at: Instant
    why: str
    vital: str
    value: float | None
    expected: float | None
    source: str


class HypothesisShape(Shape, frozen=True, kw_only=True):
    """A diagnosis, how likely it is, and what speaks for it."""

    diagnosis: Diagnosis
    confidence: float
    because: tuple[str, ...]


class TreatmentShape(Shape, frozen=True, kw_only=True):
    """A remedy that was tried; whether it helped is null until probation has told."""

    action: RemedyAction
    diagnosis: Diagnosis
    applied: Applied
    note: str
    at: Instant
    cured: bool | None
    approval_id: str | None


class IncidentShape(Shape, frozen=True, kw_only=True):
    """One illness from its first sign to its end; without an agent it is the fleet's."""

    incident_id: str
    agent_id: str | None
    opened_at: Instant
    closed_at: Instant | None
    spread: Spread
    cohort: str
    agents: tuple[str, ...]
    sigma: float
    evidence: list[EvidenceShape]
    hypotheses: list[HypothesisShape]
    treatments: list[TreatmentShape]
    passed_over: tuple[str, ...]
    outcome: str
    held: int
    resumed: int
    lost: int


class IncidentsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which incidents, newest first."""

    agent_id: Name | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE_DEFAULT
    q: FilterText | None = None


class IncidentsPage(Shape, frozen=True, kw_only=True):
    """A part of the incidents."""

    incidents: list[IncidentShape]
    next_cursor: str | None


class ApprovalShape(Shape, frozen=True, kw_only=True):
    """A question about one action on one body of evidence, and its answer."""

    approval_id: str
    agent_id: str
    incident_id: str
    action: RemedyAction
    diagnosis: Diagnosis
    sigma: float
    evidence_digest: str
    why: str
    status: ApprovalStatus
    asked_at: Instant
    expires_at: Instant
    answered_at: Instant | None
    answered_by: str
    reason: str
    stands_until: Instant | None


class ApprovalsQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which questions, newest first."""

    status: ApprovalStatus | None = None
    cursor: Cursor | None = None
    limit: Limit = PAGE_DEFAULT
    q: FilterText | None = None


class ApprovalsPage(Shape, frozen=True, kw_only=True):
    """A part of the questions."""

    approvals: list[ApprovalShape]
    next_cursor: str | None


class StepShape(Shape, frozen=True, kw_only=True):
    """One step of an agent's health."""

    at: Instant
    source: Phase
    event: PhaseEvent
    target: Phase
    cause: str
    actor: str
    incident_id: str | None
    evidence: tuple[str, ...]


class NormalShape(Shape, frozen=True, kw_only=True):
    """What is normal for one vital of an agent."""

    vital: str
    samples: int
    mean: float
    deviation: float
    highest: float


class GapShape(Shape, frozen=True, kw_only=True):
    """A window in which an agent may not have been held: from the last time it was seen to be."""

    since: Instant
    until: Instant | None
    note: str


class HoldShape(Shape, frozen=True, kw_only=True):
    """What one strategy was asked to do about an agent, and what was found when its effect was read."""

    strategy: Strategy
    wanted: Stance
    effect: Effect
    note: str
    checked_at: Instant | None
    gaps: list[GapShape]
    gaps_count: int


class ApartShape(Shape, frozen=True, kw_only=True):
    """A strategy that does not apply to an agent, and why."""

    strategy: Strategy
    why: str


class ReceiptShape(Shape, frozen=True, kw_only=True):
    """What was asked, each strategy's read-back with its time, and what the agent got from the gateway since."""

    agent_id: str
    verb: Verb
    reason: str
    actor: str
    asked_at: Instant
    read_at: Instant
    effect: Effect
    strategies: list[HoldShape]
    not_applicable: list[ApartShape]
    requests_refused: int
    requests_answered: int
    tokens_spent: int


class HealthShape(Shape, frozen=True, kw_only=True):
    """How healthy an agent is held to be, why, since when, and how it came to that."""

    agent_id: str
    phase: Phase
    since: Instant
    cause: str
    actor: str
    sigma: float
    quarantines: int
    incident: IncidentShape | None
    baseline: list[NormalShape]
    history: list[StepShape]
    killed: bool
    receipt: ReceiptShape | None


class PortraitShape(Shape, frozen=True, kw_only=True):
    """What is normal for one stream of an agent's vitals: its model calls, or its turns."""

    stream: str
    samples: int
    accelerated: int
    vitals: list[NormalShape]
    tools: list[str]
    runs: int


class BaselineShape(Shape, frozen=True, kw_only=True):
    """What is normal for an agent."""

    agent_id: str
    phase: Phase
    streams: list[PortraitShape]


class Answered(Shape, frozen=True, kw_only=True):
    """The questions that were answered, and those that could not be any more."""

    approved: list[ApprovalShape]
    settled: list[str]
