"""An agent's health: the eight phases of the immune system."""

from enum import StrEnum

from homeostat.core.machines.table import Machine, Row


class Phase(StrEnum):
    """How healthy an agent is held to be."""

    INITIALIZING = "initializing"
    HEALTHY = "healthy"
    SUSPECTED = "suspected"
    DRAINING = "draining"
    QUARANTINED = "quarantined"
    HEALING = "healing"
    PROBATION = "probation"
    EXHAUSTED = "exhausted"


class PhaseEvent(StrEnum):
    """What can happen to an agent's health."""

    BASELINE_READY = "baseline_ready"
    BASELINE_RESET = "baseline_reset"
    ANOMALY = "anomaly"
    CLEAR = "clear"
    ESCALATE = "escalate"
    ORDER_QUARANTINE = "order_quarantine"
    DRAINED = "drained"
    HEAL = "heal"
    REJECT = "reject"
    RELEASE = "release"
    TREATED = "treated"
    PROBATION_PASSED = "probation_passed"
    PROBATION_FAILED = "probation_failed"
    EXHAUST = "exhaust"


S, E = Phase, PhaseEvent

PHASE = Machine(
    "health phase",
    initial=S.INITIALIZING,
    rows=[
        Row(S.INITIALIZING, E.BASELINE_READY, S.HEALTHY, "enough samples to know what is normal"),
        Row(S.INITIALIZING, E.ORDER_QUARANTINE, S.DRAINING, "an operator isolates it before it was ever judged"),
        Row(S.HEALTHY, E.ANOMALY, S.SUSPECTED, "an anomaly was seen; one tick proves nothing"),
        Row(S.HEALTHY, E.ESCALATE, S.DRAINING, "a severe anomaly of this agent alone"),
        Row(S.HEALTHY, E.ORDER_QUARANTINE, S.DRAINING, "an operator isolates it"),
        Row(S.HEALTHY, E.BASELINE_RESET, S.INITIALIZING, "its normal is learned anew"),
        Row(S.SUSPECTED, E.CLEAR, S.HEALTHY, "the anomaly went away within the window"),
        Row(S.SUSPECTED, E.ESCALATE, S.DRAINING, "the anomaly persisted, or became severe"),
        Row(S.SUSPECTED, E.ORDER_QUARANTINE, S.DRAINING, "an operator isolates it"),
        Row(S.SUSPECTED, E.BASELINE_RESET, S.INITIALIZING, "its normal is learned anew"),
        Row(S.DRAINING, E.DRAINED, S.QUARANTINED, "nothing is in flight any more, or the drain time is over"),
        Row(S.QUARANTINED, E.HEAL, S.HEALING, "mild enough to treat by itself, or an operator approved"),
        Row(S.QUARANTINED, E.REJECT, S.EXHAUSTED, "an operator refused the treatment"),
        Row(S.QUARANTINED, E.RELEASE, S.PROBATION, "an operator lets it out untreated"),
        Row(S.HEALING, E.TREATED, S.PROBATION, "a remedy was applied; fresh vitals will tell"),
        Row(S.HEALING, E.ORDER_QUARANTINE, S.DRAINING, "an operator ends the treatment"),
        Row(S.HEALING, E.EXHAUST, S.EXHAUSTED, "every remedy of every hypothesis was tried"),
        Row(S.PROBATION, E.PROBATION_PASSED, S.HEALTHY, "fresh vitals are normal"),
        Row(S.PROBATION, E.PROBATION_FAILED, S.HEALING, "fresh vitals are still anomalous"),
        Row(S.PROBATION, E.ORDER_QUARANTINE, S.DRAINING, "an operator isolates it again"),
        Row(S.PROBATION, E.BASELINE_RESET, S.INITIALIZING, "its normal is learned anew"),
        Row(S.EXHAUSTED, E.HEAL, S.HEALING, "an operator asks for a fresh try"),
        Row(S.EXHAUSTED, E.RELEASE, S.PROBATION, "an operator lets it out untreated"),
    ],
)

RUNS = frozenset({S.INITIALIZING, S.HEALTHY, S.SUSPECTED, S.PROBATION})
"""The phases in which an agent's gate is open."""

MONITORED = frozenset({S.HEALTHY, S.SUSPECTED, S.DRAINING, S.PROBATION})
"""The phases in which its vitals are judged."""
