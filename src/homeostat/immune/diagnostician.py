"""Names what may be wrong with an agent, most likely first, each with the evidence that speaks for it."""

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from homeostat.core.records.immune import ActualCause, Diagnosis, Evidence, Feedback, Hypothesis, Spread
from homeostat.immune.vitals import Anomaly

D, A = Diagnosis, Anomaly

# How often each sign is seen where a diagnosis is true, counted over simulated illnesses (`homeostat bench detection`
# measures on others). Signs that hardly ever come with a diagnosis are left out, and are as likely as RARE says.
SIGNS: Final[dict[Diagnosis, dict[Anomaly, float]]] = {
    D.PROMPT_DRIFT: {
        A.OUTPUT_TOKEN_SPIKE: 0.90,
        A.LATENCY_SPIKE: 0.90,
        A.COST_SPIKE: 0.65,
        A.PROMPT_CHANGE: 0.55,
        A.TOKEN_SPIKE: 0.40,
        A.DRIFT: 0.15,
    },
    D.PROMPT_INJECTION: {
        A.TOOL_OUTPUT_ORDERS: 0.95,
        A.NEW_TOOL: 0.70,
        A.BORROWED_ARGUMENT: 0.70,
        A.NEW_TOOL_PAIR: 0.45,
    },
    D.INFINITE_LOOP: {
        A.REPEATED_CALL: 0.70,
        A.NEW_TOOL: 0.35,
        A.TOOL_SPIKE: 0.30,
        A.STUCK: 0.30,
        A.COST_SPIKE: 0.05,
        A.INPUT_TOKEN_SPIKE: 0.05,
    },
    D.TOOL_INSTABILITY: {
        A.ERROR_SPIKE: 0.75,
        A.RETRY_SPIKE: 0.60,
    },
    D.MEMORY_CORRUPTION: {
        A.INPUT_TOKEN_SPIKE: 0.80,
        A.TOKEN_SPIKE: 0.75,
        A.COST_SPIKE: 0.60,
        A.STUCK: 0.10,
        A.ERROR_SPIKE: 0.05,
    },
    D.COST_OVERRUN: {
        A.COST_SPIKE: 0.95,
    },
    D.EXTERNAL_CAUSE: {
        A.LATENCY_SPIKE: 0.65,
        A.ERROR_SPIKE: 0.40,
    },
    D.UNKNOWN: {
        A.COST_SPIKE: 0.70,
        A.LATENCY_SPIKE: 0.60,
        A.TOKEN_SPIKE: 0.40,
        A.INPUT_TOKEN_SPIKE: 0.35,
        A.OUTPUT_TOKEN_SPIKE: 0.30,
        A.RETRY_SPIKE: 0.15,
    },
}
RARELY: Final = 0.03
HARDLY_EVER: Final = 0.01
RARE: Final = dict.fromkeys(Anomaly, RARELY) | dict.fromkeys(
    (A.REPEATED_CALL, A.TOOL_OUTPUT_ORDERS, A.BORROWED_ARGUMENT), HARDLY_EVER
)
SHARED: Final = {D.EXTERNAL_CAUSE: 0.50}  # how often other agents show the same
SHARED_ELSEWHERE: Final = 0.03
ABSENCE: Final = 0.5  # a sign that was not seen may yet come
LIKELY_ENOUGH: Final = 0.03
HYPOTHESES_MIN: Final = 2
FEEDBACK_STEP: Final = 0.35  # nats per word of an operator
FEEDBACK_MAX: Final = 2.0


class Diagnostician:
    """Ranks the eight diagnoses. Confidences are shares: of all that may be the cause, they sum to one.

    What operators said of earlier diagnoses shifts the later ones, and can be taken back.

    >>> seen = Evidence(kind="repeated_call", sigma=4.5, at_ms=0, why="calls search three times over")
    >>> found = Diagnostician().diagnose([seen])
    >>> found[0].diagnosis.value, found[0].because, round(sum(one.confidence for one in found), 9)
    ('infinite_loop', ('calls search three times over',), 1.0)
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
            if one.cause is ActualCause.FALSE_POSITIVE:
                self._shifts[D.UNKNOWN, kind] += 1  # nothing that has a name was wrong
                if one.diagnosis is D.UNKNOWN:
                    continue
            if one.diagnosis is not None:
                self._shifts[one.diagnosis, kind] += 1 if one.cause is ActualCause.CORRECT else -1

    def shift(self, diagnosis: Diagnosis, kinds: Collection[str]) -> float:
        """By how much, in log odds, operators' words move a diagnosis on this evidence."""
        if not kinds:
            return 0.0
        total = sum(self._shifts[diagnosis, kind] for kind in kinds) / len(kinds)
        return max(-FEEDBACK_MAX, min(FEEDBACK_MAX, FEEDBACK_STEP * total))

    def shifts(self) -> list[tuple[Diagnosis, str, float]]:
        """What operators' words come to: by how much each moves a diagnosis on evidence of one kind."""
        moved = sorted({(diagnosis, kind) for (diagnosis, kind), count in self._shifts.items() if count})
        return [(diagnosis, kind, self.shift(diagnosis, [kind])) for diagnosis, kind in moved]

    def diagnose(
        self, evidence: Sequence[Evidence], *, spread: Spread = Spread.AGENT_SPECIFIC
    ) -> tuple[Hypothesis, ...]:
        """Every diagnosis that is likely enough, most likely first."""
        strongest: dict[Anomaly, Evidence] = {}
        for one in evidence:
            kind = Anomaly(one.kind)
            if kind not in strongest or one.sigma > strongest[kind].sigma:
                strongest[kind] = one
        if not strongest:
            return (Hypothesis(diagnosis=D.UNKNOWN, confidence=1.0, because=("nothing was measured",)),)
        kinds = sorted(kind.value for kind in strongest)
        shared = spread is not Spread.AGENT_SPECIFIC
        nats = {d: _log_likelihood(d, strongest, shared=shared) + self.shift(d, kinds) for d in Diagnosis}
        best = max(nats.values())
        weights = {d: math.exp(one - best) for d, one in nats.items()}
        enough = LIKELY_ENOUGH * sum(weights.values())
        ranked = sorted(weights, key=lambda d: -weights[d])
        kept = [d for rank, d in enumerate(ranked) if weights[d] >= enough or rank < HYPOTHESES_MIN]
        whole = sum(weights[d] for d in kept)
        return tuple(
            Hypothesis(diagnosis=d, confidence=weights[d] / whole, because=_because(d, strongest, shared=shared))
            for d in kept
        )


def _log_likelihood(diagnosis: Diagnosis, seen: Collection[Anomaly], *, shared: bool) -> float:
    total = 0.0
    for kind in Anomaly:
        chance = SIGNS[diagnosis].get(kind, RARE[kind])
        total += math.log(chance) if kind in seen else ABSENCE * math.log(1 - chance)
    chance = SHARED.get(diagnosis, SHARED_ELSEWHERE)
    return total + math.log(chance if shared else 1 - chance)


def _because(diagnosis: Diagnosis, seen: dict[Anomaly, Evidence], *, shared: bool) -> tuple[str, ...]:
    """What speaks for a diagnosis: signs that come with it more often than with most others."""
    because = [one.why for kind, one in seen.items() if SIGNS[diagnosis].get(kind, 0.0) > USUALLY[kind]]
    if shared and diagnosis in SHARED:
        because.append("other agents show the same")
    return tuple(because) or ("nothing else explains it better",)


USUALLY: Final = {kind: sum(signs.get(kind, RARE[kind]) for signs in SIGNS.values()) / len(SIGNS) for kind in Anomaly}
