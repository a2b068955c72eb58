"""What the immune system asks of the world: a store, a way to isolate an agent, and remedies."""

from collections.abc import Sequence
from typing import Protocol

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, TurnId
from homeostat.core.records.enforcement import Control, Custody, Hold, Mandate, Reading, Spent, Strategy
from homeostat.core.records.head import Gate
from homeostat.core.records.immune import (
    Applied,
    Approval,
    ApprovalId,
    ApprovalStatus,
    Chart,
    Feedback,
    FeedbackId,
    Incident,
    IncidentId,
    Lesson,
    Memory,
    Patient,
    RemedyAction,
    Stance,
    Transition,
    Veto,
)
from homeostat.core.records.policy import Policy, PolicyId
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.view import HeadView


class ImmuneStore(Protocol):
    """Keeps phases, incidents, approvals, lessons and baselines, durably. May raise `StoreUnavailable`."""

    async def hold(self, holder: str, now: Millis, until: Millis) -> bool:
        """Become, or stay, the one process that decides; False while another one is."""
        ...

    async def let_go(self, holder: str) -> None: ...

    async def patients(self) -> list[Patient]: ...

    async def unsettled(self) -> dict[AgentKey, int]:
        """The versions of those about whom something is still to be done."""
        ...

    async def patient(self, key: AgentKey) -> Patient | None: ...

    async def save(self, chart: Chart) -> bool:
        """Write a decision, or nothing at all where the world has moved on."""
        ...

    async def incident(self, project: ProjectId, incident_id: IncidentId) -> Incident | None: ...

    async def incidents(
        self, project: ProjectId, *, agent_id: AgentId | None, before: IncidentId | None, limit: int
    ) -> list[Incident]:
        """Newest first."""
        ...

    async def transitions(self, key: AgentKey, *, before: str | None, limit: int) -> list[Transition]:
        """Newest first."""
        ...

    async def stepped(self) -> list[AgentKey]:
        """Everybody whose health ever took a step, those included who are watched no more."""
        ...

    async def approval(self, project: ProjectId, approval_id: ApprovalId) -> Approval | None: ...

    async def approvals(
        self, project: ProjectId | None, *, status: ApprovalStatus | None, before: ApprovalId | None, limit: int
    ) -> list[Approval]:
        """Newest first."""
        ...

    async def lessons(self) -> list[Lesson]: ...

    async def put_feedback(self, feedback: Feedback) -> None: ...

    async def feedback(self) -> list[Feedback]: ...

    async def feedback_by_id(self, project: ProjectId, feedback_id: FeedbackId) -> Feedback | None: ...

    async def vetoes(self) -> list[Veto]:
        """Of all projects, oldest first."""
        ...

    async def vetoes_on(self, key: AgentKey) -> list[Veto]:
        """What may not be tried on one agent: its own, and its project's."""
        ...

    async def put_veto(self, veto: Veto) -> Veto:
        """The first word on a remedy stands; returns the one that does."""
        ...

    async def drop_veto(self, veto: Veto) -> bool:
        """Whether there was one on the same remedy, against the same, for the same."""
        ...

    async def absorb(self, *, lessons: Sequence[Lesson], feedback: Sequence[Feedback], vetoes: Sequence[Veto]) -> None:
        """Take in what was learned elsewhere, all or nothing: the larger of two counts stands, the later of two times,
        and the first of two vetoes."""
        ...

    async def memories(self) -> list[Memory]: ...

    async def save_memories(self, memories: Sequence[Memory]) -> None: ...


class EnforcementStore(Protocol):
    """Keeps what is wanted of whom, who is in custody, and where orders go. May raise `StoreUnavailable`."""

    async def holds(self) -> list[Hold]: ...

    async def holds_of(self, key: AgentKey) -> list[Hold]:
        """By strategy, in the order in which they close."""
        ...

    async def save_holds(self, holds: Sequence[Hold], mandate: Mandate | None = None) -> None:
        """All or nothing, each in place of the one before. Under a mandate that is void it raises `AgentMoved`."""
        ...

    async def drop_hold(self, key: AgentKey, strategy: Strategy) -> None: ...

    async def custodies(self) -> list[Custody]: ...

    async def put_custody(self, custody: Custody) -> None: ...

    async def drop_custody(self, key: AgentKey) -> None: ...

    async def control(self, key: AgentKey) -> Control | None: ...

    async def put_control(self, control: Control) -> None: ...

    async def drop_control(self, key: AgentKey) -> bool: ...

    async def signing_key(self, fresh: str) -> str:
        """The secret by which orders are signed: the one that is kept, else this one from now on."""
        ...


class Engine(Protocol):
    """What holds agents for us: a container engine, a cluster."""

    title: str
    local: bool  # whether it is this machine's own

    async def ping(self) -> None:
        """Ask for what is always asked of it; raises where it is away or does not let us."""
        ...


class Enforcer(Protocol):
    """One way to hold agents. What it cannot do it raises, and what it did it can read back."""

    strategy: Strategy
    local: bool  # whether only the process that runs here can do it
    frees_to_treat: bool  # whether an agent held by it has to be let go before it can be treated
    drains: bool  # whether a draining agent can be told from one that runs
    ends: bool  # whether one that ended can be told from one that is stopped

    async def reaches(self, key: AgentKey) -> bool:
        """Whether this agent can be held so; raises where that cannot be told."""
        ...

    async def observe(self, key: AgentKey, before: str) -> str:
        """What there is now and has to be again, in words of its own; asked before an agent is closed.

        `before` is what was seen before it, for parts that are closed already.
        """
        ...

    async def hold(
        self, key: AgentKey, stance: Stance, reason: str, before: str, mandate: Mandate | None = None
    ) -> None:
        """Bring an agent into a stance; again, if it was in it before.

        Where what is done lies in the store, it is not done under a mandate that is void by then: `AgentMoved`.
        """
        ...

    async def held(self, key: AgentKey, before: str) -> Reading:
        """The stance an agent is found in, read where it takes effect, beside what there was before."""
        ...

    def apart(self, key: AgentKey) -> str:
        """Why an agent is not held so though somebody might expect it; nothing where there is nothing to say."""
        ...

    async def in_flight(self, key: AgentKey) -> int:
        """How much of an agent's work is under way."""
        ...

    async def waiting(self, key: AgentKey) -> int:
        """How many messages wait for an agent."""
        ...

    async def preempt(self, key: AgentKey) -> None:
        """End what is under way without losing it."""
        ...


class Spending(Protocol):
    """Knows what agents use."""

    async def spent(self, agent: AgentKey, since: Millis) -> Spent: ...


class Remedies(Protocol):
    """Treats agents."""

    async def apply(self, key: AgentKey, action: RemedyAction, reason: str) -> tuple[Applied, str]:
        """Try a remedy; what became of it, and what was done in words."""
        ...

    async def undo(self, key: AgentKey) -> None:
        """Take back what a remedy that did not help has put in force."""
        ...


class Gates(Protocol):
    """The kernel's doors."""

    async def set_gate(
        self, key: AgentKey, gate: Gate, reason: str | None = None, mandate: Mandate | None = None
    ) -> Gate: ...

    async def preempt(self, key: AgentKey) -> TurnId | None: ...


class Heads(Protocol):
    """Where an agent's turns can be looked at."""

    async def head(self, project: ProjectId, agent_id: AgentId) -> HeadView | None: ...


class Policies(Protocol):
    """The gateway's rules."""

    async def put_policy(self, policy: Policy, mandate: Mandate | None = None) -> Policy: ...

    async def drop_policy(self, project: ProjectId, policy_id: PolicyId, mandate: Mandate | None = None) -> bool: ...

    def policy(self, project: ProjectId, policy_id: PolicyId) -> Policy | None: ...

    async def gate(self, agent: AgentKey) -> tuple[str, str] | None:
        """What refuses a call of this agent as the store has it now: the error's code and the policy, or nothing."""
        ...

    async def in_flight(self, agent: AgentKey) -> int: ...
