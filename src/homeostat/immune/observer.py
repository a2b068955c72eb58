"""Turns samples into evidence: one vectorised pass per round of samples, what agents do beside what is measured."""

import math
from collections import deque
from collections.abc import Mapping
from typing import Final

from homeostat.core.records.immune import Evidence
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals
from homeostat.immune.baseline import Baselines
from homeostat.immune.findings import Finding
from homeostat.immune.intake import CALL, TURN
from homeostat.immune.sentinel import Sentinel
from homeostat.immune.vitals import GAUGES, Anomaly
from homeostat.immune.watch import Watch

NAN: Final = math.nan
TURN_SOURCE: Final = "turn"


def measures(sample: Vitals) -> list[float]:
    """A sample as a row of vitals. A call that failed has no length and no price, and no zero either."""
    sound = not sample.error
    known_in, known_out = sample.tokens_in, sample.tokens_out
    both = None if known_in is None or known_out is None else known_in + known_out
    return [
        _known(sample.latency_ms, sound),
        _known(both, sound),
        _known(known_in, sound),
        _known(known_out, sound),
        _known(sample.cost_usd, sound),
        float(len(sample.tools)) if sound and sample.source != TURN_SOURCE else NAN,
        float(sample.retries),
        float(sample.error),
    ]


def _known(value: float | None, sound: bool) -> float:  # noqa: FBT001 - two of a kind, side by side
    return NAN if value is None or not sound else float(value)


def stream_of(sample: Vitals) -> str:
    """Calls and turns are different populations, and have baselines of their own."""
    return TURN if sample.source == TURN_SOURCE else CALL


class Observer:
    """Scores samples with the sentinel and the habits of their agents."""

    def __init__(self, *, baselines: Baselines, sentinel: Sentinel) -> None:
        self._baselines = baselines
        self._sentinel = sentinel

    def watch(self, watch: Watch, sample: Vitals) -> int:
        """The row of an agent's stream."""
        stream = stream_of(sample)
        if stream not in watch.rows:
            watch.rows[stream] = self._baselines.allot()
        return watch.rows[stream]

    def rounds(self, waiting: Mapping[AgentKey, deque[Vitals]], watches: Mapping[AgentKey, Watch]) -> int:
        """Score everything that waits, the first sample of each agent first; returns how many were scored."""
        scored = 0
        queues = [(watches[key], samples) for key, samples in waiting.items() if key in watches]
        while queues:
            batch = [(watch, samples.popleft()) for watch, samples in queues]
            self._round(batch)
            scored += len(batch)
            queues = [(watch, samples) for watch, samples in queues if samples]
        return scored

    def _round(self, batch: list[tuple[Watch, Vitals]]) -> None:
        rows = [self.watch(watch, sample) for watch, sample in batch]
        owner = dict(zip(rows, batch, strict=True))
        found = self._sentinel.tick(
            rows,
            [measures(sample) for _, sample in batch],
            at=[sample.at_ms / 1000 for _, sample in batch],
            learn=[watch.learns for watch, _ in batch],
        )
        seen: dict[int, list[Evidence]] = {}
        for finding in found:
            if finding.kind is not Anomaly.STUCK and finding.value <= finding.expected:
                continue  # an average still remembers a spike; this sample itself is no sign of anything
            watch, sample = owner[finding.row]
            seen.setdefault(finding.row, []).append(_evidence(finding, sample))
        for row, (watch, sample) in owner.items():
            done, alarming = watch.behaves(sample)
            self._note(watch, seen.get(row, []), done, alarming=alarming)
            watch.dirty = True

    def _note(self, watch: Watch, measured: list[Evidence], done: list[Evidence], *, alarming: bool) -> None:
        """Count a tick of an agent."""
        watch.fresh += 1
        if not measured and not alarming:
            watch.flared = watch.flared or watch.streak > 0
            watch.streak = 0
            if watch.wanted_at is None:
                watch.sigma = 0.0
            return
        found = [*measured, *done]
        watch.evidence.extend(found)
        watch.streak += 1
        watch.bad += 1
        watch.sigma = max(watch.sigma, *(one.sigma for one in found))


def _evidence(finding: Finding, sample: Vitals) -> Evidence:
    name = GAUGES[finding.vital].name
    value, expected = round(finding.value, 6), round(finding.expected, 6)
    if finding.kind is Anomaly.STUCK:
        why = f"{name} has been exactly {value:g} for many samples"
    elif expected > 0:
        why = f"{name} is {value:g}, {value / expected:.1f} times the usual {expected:g}"
    else:
        why = f"{name} is {value:g} where {expected:g} is usual"
    return Evidence(
        kind=finding.kind.value,
        sigma=round(finding.sigma, 3),
        at_ms=sample.at_ms,
        why=why,
        vital=name,
        value=value,
        expected=expected,
        source=sample.source,
    )
