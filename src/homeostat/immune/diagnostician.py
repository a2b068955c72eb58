"""Names what may be wrong with an agent, most likely first, each with the evidence that speaks for it."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from homeostat.core.records.immune import ActualCause, Diagnosis, Evidence, Feedback, Hypothesis, Spread
from homeostat.immune.vitals import Anomaly

D, A = Diagnosis, Anomaly

# How much each sign speaks for each diagnosis, as the chance that it is the cause given this sign alone.
SIGNS: Final[dict[Diagnosis, dict[Anomaly, float]]] = {
    D.PROMPT_DRIFT: {
        A.PROMPT_CHANGE: 0.60,
        A.DRIFT: 0.45,
        A.OUTPUT_TOKEN_SPIKE: 0.40,
        A.TOKEN_SPIKE: 0.35,
        A.INPUT_TOKEN_SPIKE: 0.15,
        A.COST_SPIKE: 0.10,
    },
    D.PROMPT_INJECTION: {
        A.TOOL_OUTPUT_ORDERS: 0.85,
        A.BORROWED_ARGUMENT: 0.55,
        A.NEW_TOOL: 0.45,
        A.NEW_TOOL_PAIR: 0.20,
        A.PROMPT_CHANGE: 0.15,
        A.TOOL_SPIKE: 0.15,
    },
    D.INFINITE_LOOP: {
        A.REPEATED_CALL: 0.85,
        A.TOOL_SPIKE: 0.50,
        A.STUCK: 0.45,
        A.RETRY_SPIKE: 0.15,
    },
    D.TOOL_INSTABILITY: {
        A.RETRY_SPIKE: 0.60,
        A.ERROR_SPIKE: 0.45,
        A.TOOL_SPIKE: 0.20,
    },
    D.MEMORY_CORRUPTION: {
        A.INPUT_TOKEN_SPIKE: 0.60,
        A.STUCK: 0.35,
        A.ERROR_SPIKE: 0.10,
        A.DRIFT: 0.10,
    },
    D.COST_OVERRUN: {
        A.COST_SPIKE: 0.45,
        A.TOKEN_SPIKE: 0.25,
        A.OUTPUT_TOKEN_SPIKE: 0.20,
    },
    D.EXTERNAL_CAUSE: {
        A.LATENCY_SPIKE: 0.60,
        A.ERROR_SPIKE: 0.40,
        A.RETRY_SPIKE: 0.20,
    },
    D.UNKNOWN: {},
}
# What a diagnosis cannot do without: costs do not rise for no reason, and a slow provider sends no more tokens.
SPEAKS_AGAINST: Final[dict[Diagnosis, frozenset[Anomaly]]] = {
    D.EXTERNAL_CAUSE: frozenset({A.TOKEN_SPIKE, A.TOOL_SPIKE, A.REPEATED_CALL, A.TOOL_OUTPUT_ORDERS}),
    D.COST_OVERRUN: frozenset({A.REPEATED_CALL, A.TOOL_OUTPUT_ORDERS}),
    D.TOOL_INSTABILITY: frozenset({A.TOKEN_SPIKE}),
}
AGAINST: Final = 0.5
UNKNOWN_CONFIDENCE: Final = 0.15
PARTIAL_EXTERNAL: Final = 0.35
CONFIDENCE_MAX: Final = 0.97
LIKELY_ENOUGH: Final = 0.10
FEEDBACK_STEP: Final = 0.35  # nats per word of an operator
FEEDBACK_MAX: Final = 2.0


class Diagnostician:
    """Ranks the eight diagnoses. What operators said of earlier ones shifts the later ones, and can be taken back.

    >>> seen = Evidence(kind="repeated_call", sigma=4.5, at_ms=0, why="calls search three times over")
    >>> [(h.diagnosis.value, round(h.confidence, 2)) for h in Diagnostician().diagnose([seen])]
    [('infinite_loop', 0.85), ('unknown', 0.15)]
    """

    def __init__(self) -> None:
        self._shifts: Counter[tuple[Diagnosis, str]] = Counter()
        self._said: dict[str, Feedback] = {}

    def learn(self, said: Iterable[Feedback]) -> None:
        """Take in everything operators said; what was withdrawn is as if it had never been said."""
        self._said = {one.feedback_id: one for one in said}
        self._shifts.clear()
        for one in self._said.values():
            if not one.withdrawn:
                self._shift(one)

    def hear(self, one: Feedback) -> None:
        self.learn([*self._said.values(), one])

    def _shift(self, one: Feedback) -> None:
        for kind in one.kinds or ("",):
            if one.cause is ActualCause.PROVIDER_OUTAGE:
                self._shifts[D.EXTERNAL_CAUSE, kind] += 1
                if one.diagnosis is D.EXTERNAL_CAUSE:
                    continue  # the diagnosis said so itself
            if one.diagnosis is not None:
                self._shifts[one.diagnosis, kind] += 1 if one.cause is ActualCause.CORRECT else -1
            if one.cause is ActualCause.FALSE_POSITIVE:
                self._shifts[D.UNKNOWN, kind] -= 1

    def shift(self, diagnosis: Diagnosis, kinds: Collection[str]) -> float:
        """By how much, in log odds, operators' words move a diagnosis on this evidence."""
        if not kinds:
            return 0.0
        total = sum(self._shifts[diagnosis, kind] for kind in kinds) / len(kinds)
        return max(-FEEDBACK_MAX, min(FEEDBACK_MAX, FEEDBACK_STEP * total))

    def diagnose(
        self, evidence: Sequence[Evidence], *, spread: Spread = Spread.AGENT_SPECIFIC
    ) -> tuple[Hypothesis, ...]:
        """Every diagnosis that something speaks for, most likely first."""
        strongest: dict[Anomaly, Evidence] = {}
        for one in evidence:
            kind = Anomaly(one.kind)
            if kind not in strongest or one.sigma > strongest[kind].sigma:
                strongest[kind] = one
        kinds = sorted(kind.value for kind in strongest)
        found: list[Hypothesis] = []
        for diagnosis, signs in SIGNS.items():
            doubt = 1.0
            because: list[str] = []
            for kind, one in strongest.items():
                if (weight := signs.get(kind)) is not None:
                    doubt *= 1 - weight * _clarity(one.sigma)
                    because.append(one.why)
            if diagnosis is D.EXTERNAL_CAUSE and spread is not Spread.AGENT_SPECIFIC:
                doubt *= 1 - PARTIAL_EXTERNAL
                because.append("other agents show the same")
            confidence = 1 - doubt
            if strongest.keys() & SPEAKS_AGAINST.get(diagnosis, frozenset()):
                confidence *= AGAINST
            if diagnosis is D.UNKNOWN:
                confidence = UNKNOWN_CONFIDENCE
                because.append("nothing else explains it better")
            confidence = _moved(confidence, self.shift(diagnosis, kinds))
            if confidence >= LIKELY_ENOUGH or diagnosis is D.UNKNOWN:
                found.append(Hypothesis(diagnosis=diagnosis, confidence=confidence, because=tuple(because)))
        return tuple(sorted(found, key=lambda one: -one.confidence))


def _clarity(sigma: float) -> float:
    """A sign just over the alarm counts almost whole: it was calibrated to be rare."""
    return min(1.0, 0.7 + 0.1 * max(sigma - 1.5, 0.0))


def _moved(confidence: float, nats: float) -> float:
    if confidence <= 0.0:
        return 0.0
    confidence = min(confidence, CONFIDENCE_MAX)
    odds = math.log(confidence / (1 - confidence)) + nats
    return min(CONFIDENCE_MAX, 1 / (1 + math.exp(-odds)))
