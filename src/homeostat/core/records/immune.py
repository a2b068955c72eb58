"""What is known of an agent's health: its phase, its incidents with evidence and treatment, approvals, and lessons."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NewType

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId
from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.turn import AgentKey

if TYPE_CHECKING:
    from homeostat.core.records.enforcement import Hold

IncidentId = NewType("IncidentId", str)
ApprovalId = NewType("ApprovalId", str)
FeedbackId = NewType("FeedbackId", str)

NEVER = Millis(0)

IMMUNE_ACTOR = "immune system"


class Diagnosis(StrEnum):
    """What may be wrong with an agent."""

    PROMPT_DRIFT = "prompt_drift"
    PROMPT_INJECTION = "prompt_injection"
    INFINITE_LOOP = "infinite_loop"
    TOOL_INSTABILITY = "tool_instability"
    MEMORY_CORRUPTION = "memory_corruption"
    COST_OVERRUN = "cost_overrun"
    EXTERNAL_CAUSE = "external_cause"
    UNKNOWN = "unknown"


class RemedyAction(StrEnum):
    """What can be done about it."""

    RESET_MEMORY = "reset_memory"
    ROLLBACK_PROMPT = "rollback_prompt"
    REDUCE_AUTONOMY = "reduce_autonomy"
    REVOKE_TOOLS = "revoke_tools"
    RESET_AGENT = "reset_agent"

    @property
    def words(self) -> str:
        """As it is said among people."""
        return self.value.replace("_", " ")


class Spread(StrEnum):
    """How many agents show the same at the same time."""

    AGENT_SPECIFIC = "agent_specific"
    PARTIAL = "partial"
    FLEET_WIDE = "fleet_wide"


class Applied(StrEnum):
    """What became of a remedy. None of these says that it helped; only probation does."""

    APPLIED = "applied"
    NOT_APPLICABLE = "not_applicable"
    FAILED = "failed"


class Stance(StrEnum):
    """How an agent is to be held: as one that runs, that finishes what it has begun, that is stopped, or that ended."""

    OPEN = "open"
    DRAINING = "draining"
    CLOSED = "closed"
    ENDED = "ended"


class ApprovalStatus(StrEnum):
    """What became of a question."""

    PENDING = "pending"
    APPROVED = "approved"
    REJECTED = "rejected"
    EXPIRED = "expired"


class ActualCause(StrEnum):
    """What an operator says it really was."""

    FALSE_POSITIVE = "false_positive"
    WRONG_DIAGNOSIS = "wrong_diagnosis"
    PROVIDER_OUTAGE = "provider_outage"
    CORRECT = "correct"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One thing that was seen, in numbers and in words."""

    kind: str
    sigma: float
    at_ms: Millis
    why: str
    vital: str = ""
    value: float | None = None
    expected: float | None = None
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hypothesis:
    """A diagnosis, how likely it is, and what speaks for it."""

    diagnosis: Diagnosis
    confidence: float
    because: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Treatment:
    """A remedy that was tried. `cured` is None until probation has told."""

    action: RemedyAction
    diagnosis: Diagnosis
    applied: Applied
    note: str
    at_ms: Millis
    cured: bool | None = None
    approval_id: ApprovalId | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One illness from its first sign to its end. Without an agent it is the fleet's."""

    incident_id: IncidentId
    project: ProjectId
    agent_id: AgentId | None
    opened_at_ms: Millis
    closed_at_ms: Millis | None = None
    spread: Spread = Spread.AGENT_SPECIFIC
    cohort: str = ""
    agents: tuple[str, ...] = ()
    sigma: float = 0.0
    evidence: tuple[Evidence, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    treatments: tuple[Treatment, ...] = ()
    passed_over: tuple[str, ...] = ()  # remedies that were not tried because somebody vetoed them
    outcome: str = ""
    held: int = 0
    resumed: int = 0
    lost: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Patient:
    """An agent as the immune system holds it. `version` is what every change compares and swaps."""

    project: ProjectId
    agent_id: AgentId
    version: int
    phase: Phase
    since_ms: Millis
    incident_id: IncidentId | None = None
    sigma: float = 0.0
    not_before_ms: Millis = NEVER  # how long it stays isolated at least
    drain_until_ms: Millis = NEVER
    treated_until_ms: Millis = NEVER  # how long its treatment is left to the process that has begun it
    quarantines: int = 0
    quarantined_at_ms: Millis = NEVER
    forgiven_at_ms: Millis = NEVER  # failures before this do not count any more
    cause: str = ""
    actor: str = IMMUNE_ACTOR
    bound: tuple[Diagnosis, RemedyAction] | None = None  # what an operator approved, to be tried next
    approval_id: ApprovalId | None = None
    killed: bool = False  # an operator ended it: nothing treats it, and it does not come back by itself
    last_step: str = ""  # the id of its latest transition: that of the next one is larger

    @property
    def key(self) -> AgentKey:
        return (self.project, self.agent_id)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """One step of an agent's health, with cause and actor."""

    transition_id: str
    project: ProjectId
    agent_id: AgentId
    at_ms: Millis
    source: Phase
    event: PhaseEvent
    target: Phase
    cause: str
    actor: str
    incident_id: IncidentId | None = None
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Approval:
    """A question to an operator about one action on one body of evidence. The first answer stands."""

    approval_id: ApprovalId
    project: ProjectId
    agent_id: AgentId
    incident_id: IncidentId
    action: RemedyAction
    diagnosis: Diagnosis
    sigma: float
    evidence_digest: str
    why: str
    asked_at_ms: Millis
    expires_at_ms: Millis
    status: ApprovalStatus = ApprovalStatus.PENDING
    answered_at_ms: Millis | None = None
    answered_by: str = ""
    reason: str = ""
    stands_until_ms: Millis | None = None

    @property
    def step(self) -> tuple[Diagnosis, RemedyAction]:
        return (self.diagnosis, self.action)

    def covers(self, agent_id: AgentId, diagnosis: Diagnosis, action: RemedyAction, now: Millis) -> bool:
        """Whether this yes was given for a while, and for the same action on the same agent with the same diagnosis."""
        standing = self.status is ApprovalStatus.APPROVED and (self.stands_until_ms or NEVER) > now
        return standing and (self.agent_id, self.diagnosis, self.action) == (agent_id, diagnosis, action)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lesson:
    """How often a remedy helped one agent against one diagnosis, and how often not."""

    project: ProjectId
    agent_id: AgentId
    diagnosis: Diagnosis
    action: RemedyAction
    cured: int = 0
    failed: int = 0
    failed_at_ms: Millis = NEVER


@dataclass(frozen=True, slots=True, kw_only=True)
class Veto:
    """An operator's word that a remedy is not to be tried against a diagnosis: on one agent, or on any of a project."""

    project: ProjectId
    agent_id: AgentId | None
    diagnosis: Diagnosis
    action: RemedyAction
    reason: str
    actor: str
    at_ms: Millis

    @property
    def step(self) -> tuple[Diagnosis, RemedyAction]:
        return (self.diagnosis, self.action)

    @property
    def words(self) -> str:
        """As it is told where a ladder passes it over."""
        against = self.diagnosis.replace("_", " ")
        return f"{self.action.words} against {against} was vetoed by {self.actor}: {self.reason}"

    def forbids(self, agent: AgentKey, step: tuple[Diagnosis, RemedyAction]) -> bool:
        return self.step == step and self.project == agent[0] and self.agent_id in (None, agent[1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Feedback:
    """What an operator said of a diagnosis. One that was withdrawn counts no more."""

    feedback_id: FeedbackId
    project: ProjectId
    agent_id: AgentId
    cause: ActualCause
    notes: str
    at_ms: Millis
    author: str
    incident_id: IncidentId | None = None
    diagnosis: Diagnosis | None = None
    kinds: tuple[str, ...] = ()
    withdrawn: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """One stream of an agent's vitals as it is stored: the baseline, and the habits beside it."""

    project: ProjectId
    agent_id: AgentId
    stream: str
    state: bytes
    habits: str
    saved_at_ms: Millis


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """What one decision writes, all or nothing: nobody else may have moved the patient or answered the question."""

    patients: tuple[Patient, ...] = ()
    transitions: tuple[Transition, ...] = ()
    incidents: tuple[Incident, ...] = ()
    asked: tuple[Approval, ...] = ()
    answered: tuple[Approval, ...] = ()
    lessons: tuple[Lesson, ...] = ()
    gone: tuple[Patient, ...] = ()  # forgotten with their baselines; what happened to them is not
    holds: tuple["Hold", ...] = ()  # how whoever moved is to be held from now on
