"""Turns samples into evidence: one vectorised pass per round of samples, what agents do beside what is measured."""

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

import numpy as np

from homeostat.core.machines.phase import Phase
from homeostat.core.records.immune import Evidence
from homeostat.core.records.turn import AgentKey
from homeostat.core.records.vitals import Vitals
from homeostat.immune.baseline import Baselines
from homeostat.immune.findings import Finding, sigma_of
from homeostat.immune.intake import CALL, HEARSAY, TURN
from homeostat.immune.sentinel import Sentinel
from homeostat.immune.vitals import GAUGES, Anomaly, Vital
from homeostat.immune.watch import Watch

NAN: Final = math.nan
TURN_SOURCE: Final = "turn"
USUAL_FAILURES_LEAST: Final = 0.02  # nobody is held to fail less often than this
TURN_LATE_MS: Final = 1_000.0  # a turn that is later than usual by less says more of machines than of its agent
TURN_LATE_SURELY_MS: Final = 60_000.0  # nor does a machine stand still for longer, and go on as if nothing had been
TURN_LATE_SIGMA: Final = 6.0  # what is later than the one and not than the other isolates nobody at first sight


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
        _known(sample.steps if sample.source == TURN_SOURCE else len(sample.tools), sound),
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
            batch = [(watch, sample) for watch, samples in queues if (sample := _next(watch, samples)) is not None]
            if batch:
                self._round(batch)
            scored += len(batch)
            queues = [(watch, samples) for watch, samples in queues if samples]
        return scored

    def _round(self, batch: list[tuple[Watch, Vitals]]) -> None:
        rows = [self.watch(watch, sample) for watch, sample in batch]
        for row, (watch, sample) in zip(rows, batch, strict=True):
            watch.failures[row] = watch.failures.get(row, 0) + 1 if sample.error else 0
        owner = dict(zip(rows, batch, strict=True))
        found = self._sentinel.tick(
            rows,
            [measures(sample) for _, sample in batch],
            at=[sample.at_ms / 1000 for _, sample in batch],
            learn=[watch.learns and watch.failures[row] < 2 for row, (watch, _) in zip(rows, batch, strict=True)],
        )
        seen: dict[int, list[Evidence]] = {}
        for finding in found:
            if finding.kind is not Anomaly.STUCK and finding.value <= finding.expected:
                continue  # an average still remembers a spike; this sample itself is no sign of anything
            watch, sample = owner[finding.row]
            late_ms = _turn_late_ms(finding, sample)
            if late_ms < TURN_LATE_MS:
                continue
            told = _evidence(finding, sample)
            if late_ms < TURN_LATE_SURELY_MS:
                told = replace(told, sigma=min(told.sigma, TURN_LATE_SIGMA))
            seen.setdefault(finding.row, []).append(told)
        for row, (watch, sample) in owner.items():
            done, alarming = watch.behaves(sample)
            if (failing := self._failing(watch, row, sample)) is not None:
                seen.setdefault(row, []).append(failing)
            self._note(watch, row, seen.get(row, []), done, alarming=alarming)
            watch.dirty = True

    def _failing(self, watch: Watch, row: int, sample: Vitals) -> Evidence | None:
        """Failures in a row, which a single one before them has taught nobody to expect."""
        failures = watch.failures[row]
        if failures < 2 or watch.phase is Phase.INITIALIZING:
            return None
        usual = max(float(self._baselines.column("mean")[row, Vital.ERROR_RATE]), USUAL_FAILURES_LEAST)
        nats = -failures * math.log(min(usual, 1.0))
        if nats < self._sentinel.settings.alarm_nats:
            return None
        return Evidence(
            kind=Anomaly.ERROR_SPIKE.value,
            sigma=round(float(sigma_of(np.array([nats], np.float32))[0]), 3),
            at_ms=sample.at_ms,
            why=f"{failures} failures in a row where {usual:.0%} fail at most",
            vital=GAUGES[Vital.ERROR_RATE].name,
            value=1.0,
            expected=usual,
            source=sample.source,
        )

    def _note(self, watch: Watch, row: int, measured: list[Evidence], done: list[Evidence], *, alarming: bool) -> None:
        """Count a tick of an agent."""
        anomalous = bool(measured) or alarming
        watch.count(row, anomalous=anomalous)
        if anomalous:
            watch.evidence.extend([*measured, *done])
            watch.sigma = max(watch.sigma, *(one.sigma for one in (*measured, *done)))
            watch.worst = max(watch.worst, watch.sigma)
        elif watch.streak == 0 and watch.wanted_at is None:
            watch.sigma = 0.0


def _turn_late_ms(finding: Finding, sample: Vitals) -> float:
    """By how much a turn is late: a disk, a busy worker or a host without a processor to give makes any a little late.

    A call is timed from where it leaves to where it is answered, and is no such finding; a turn from store to store,
    with all between.
    """
    if sample.source != TURN_SOURCE or finding.vital != Vital.LATENCY:
        return math.inf
    return finding.value - (0.0 if finding.kind is Anomaly.STUCK else finding.expected)


def _next(watch: Watch, samples: deque[Vitals]) -> Vitals | None:
    """The next sample that measures something. What an agent was told on the way is held against what it does next."""
    while samples:
        sample = samples.popleft()
        if sample.source != HEARSAY:
            return sample
        watch.overhear(sample)
    return None


def _evidence(finding: Finding, sample: Vitals) -> Evidence:
    name = GAUGES[finding.vital].name
    value, expected = round(finding.value, 6), round(finding.expected, 6)
    title, seen, usual = _titled(name), _figure(name, value), _figure(name, expected)
    if finding.kind is Anomaly.STUCK:
        why = f"{title} has been exactly {seen} for many samples"
    elif expected > 0:
        why = f"{title} is {seen}, {value / expected:.1f} times the usual {usual}"
    else:
        why = f"{title} is {seen} where {usual} is usual"
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


def _titled(vital: str) -> str:
    """A vital's name as people say it: its unit stands with the number."""
    return vital.removesuffix("_ms").removesuffix("_usd").replace("_", " ")


def _figure(vital: str, value: float) -> str:
    """A number with its unit, as people write it."""
    if vital.endswith("_usd"):
        return f"${value:.2f}" if value >= 1 else f"${value:.6f}".rstrip("0").rstrip(".")
    if vital.endswith("_rate"):
        return f"{value:.0%}"
    rounded = f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"
    return f"{rounded} ms" if vital.endswith("_ms") else rounded
