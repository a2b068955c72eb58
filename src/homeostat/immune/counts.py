"""What the immune system has done since this process began, for whoever reads its metrics."""

from collections import Counter
from dataclasses import dataclass, field

from homeostat.core.machines.phase import Phase, PhaseEvent
from homeostat.core.records.immune import ActualCause, Applied, ApprovalStatus, RemedyAction

Steps = Counter[tuple[PhaseEvent, Phase]]


@dataclass(slots=True)
class Counts:
    """Counters by what there are only few of: events, phases, remedies, answers, causes. Never by agent."""

    steps: Steps = field(default_factory=Counter)
    treated: Counter[tuple[RemedyAction, Applied]] = field(default_factory=Counter)
    judged: Counter[tuple[RemedyAction, bool]] = field(default_factory=Counter)
    approvals: Counter[ApprovalStatus] = field(default_factory=Counter)
    feedback: Counter[ActualCause] = field(default_factory=Counter)
    alerts: int = 0
    capped: int = 0  # agents that were to be isolated when as many as may be were
    ticks: int = 0
    scored: int = 0
    tick_seconds: float = 0.0  # of the last one
    forgotten: int = 0
