"""The vectorised pass agrees with the same rules written plainly, for one vital of one agent."""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from homeostat.immune.baseline import Baselines
from homeostat.immune.examination import Settings
from homeostat.immune.findings import sigma_of
from homeostat.immune.sentinel import Sentinel
from homeostat.immune.vitals import Anomaly, Gauge

F: Any = np.float32


@dataclass
class ScalarCell:
    gauge: Gauge
    settings: Settings
    count: int = 0
    mean: Any = 0.0
    last: Any = math.nan
    level: Any = 0.0
    surprise: Any = 0.0
    shift: Any = 0.0
    high: Any = 0.0
    level_high: Any = 0.0
    surprise_high: Any = 0.0
    shift_high: Any = 0.0
    repeat: Any = 0.5
    run: int = 0
    quiet: int = 0
    pending: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    histogram: list[int] = field(default_factory=lambda: [0] * 32)
    calendar: list[Any] = field(default_factory=lambda: [0.0] * 8)
    visits: list[int] = field(default_factory=lambda: [0] * 8)

    def tick(self, x: Any, at: float) -> tuple[float, bool]:  # noqa: C901, PLR0915 - read it against the text, top to bottom
        """The sample's nats, and whether it opens an episode. Rising gauges only, always learning."""
        s, x = self.settings, F(x)
        if not (x >= self.gauge.lowest and abs(x) < 1e15):
            return 0.0, False
        if self.count == 0:
            self.mean = self.level = self.high = self.level_high = x
        n, mean = min(self.count, s.memory_samples), F(self.mean)
        width = abs(mean) * F(s.relative_floor) + F(self.gauge.unit)
        up = max(F(self.high) - mean, width)
        spike = (x - mean) / up
        within = min(x, mean + up)
        level = F(self.level) + F(s.level_gain) * (within - F(self.level))
        level_up = max(F(self.level_high) - mean, width)
        tilted = (level - mean) / level_up
        hour = int(at % 86400 * 8 / 86400)
        usual, visits = F(self.calendar[hour]), self.visits[hour]
        known = visits >= s.calendar_visits
        surprise = F(self.surprise)
        surprise_high = max(F(self.surprise_high), width)
        surprised = F(0)
        if known:
            surprise = surprise + F(s.level_gain) * (max(within - usual, 0) - surprise)
            surprised = surprise / surprise_high
        octaves = np.log2(max(abs(x) / F(self.gauge.unit), F(0.25)))
        b = int(np.clip(2 * octaves + 1, 0, 31))
        here = self.histogram[b] if b >= 3 else sum(self.histogram[:3])
        step = math.log(self.histogram[max(b - 2, 0)] + 0.5) - math.log(here + 0.5)
        shift_high = max(F(self.shift_high), F(s.shift_nats))
        shift = F(self.shift)
        if self.count >= s.shift_samples:
            shift = F(min(max(shift + min(max(step, -2.5), 2.5), 0), 3 * shift_high))
        same = self.count > 0 and x == self.last
        run = self.run + 1 if same else 0
        chance = max(self.repeat, s.freeze_chance)
        frozen = run * -math.log(chance) if run >= 4 and self.gauge.freezes and chance < 0.98 else 0.0

        youth = min((n + 1) / s.memory_samples, 1) ** s.youth_power
        anchor = math.log(max(n, 2)) * youth
        spiking = min(spike, 1 - s.spike_slope + s.spike_slope * spike)
        nats = max(max(spiking, tilted, surprised) * anchor, frozen)
        if level > mean:
            nats = max(nats, s.alarm_nats + shift - shift_high * (2 if self.count < 4 * s.shift_samples else 1))
        warm = self.count >= s.min_samples
        nats = float(nats) if warm else 0.0
        anomalous = nats >= s.alarm_nats

        onset, closing = anomalous and self.quiet == 0, self.quiet == 1
        self.quiet = s.refractory_samples if onset else max(self.quiet - 1, 0)
        ratios = (spike, tilted, surprised, shift / shift_high)
        held = [((self.quiet > 0 and warm) or anomalous) and ratio > 1 for ratio in ratios]
        for k, ratio in enumerate(ratios):
            if self.quiet > 0 and warm:
                self.pending[k] = max(self.pending[k], int(max(min(ratio - 1, s.widen_max), 0) * 30))
        if closing:
            wide = [waiting / 30 for waiting in self.pending]
            self.high += wide[0] * up
            self.level_high += wide[1] * level_up
            surprise_high *= 1 + wide[2]
            shift_high *= 1 + wide[3]
            self.pending = [0, 0, 0, 0]

        new_mean = mean
        if not anomalous:
            new_mean = mean + F(max(s.mean_gain, 1 / (n + 1))) * (x - mean)
        fade = F(s.envelope_decay)
        if not held[0]:
            self.high = max(x, self.high + fade * (new_mean - self.high))
        if not held[1]:
            self.level_high = max(level, self.level_high + fade * (new_mean - self.level_high))
        self.surprise_high = surprise_high if held[2] else max(surprise, surprise_high * (1 - fade))
        self.shift_high = shift_high if held[3] else max(shift, shift_high * (1 - fade))
        self.level, self.surprise, self.shift, self.run, self.last = level, surprise, shift, run, x
        if not anomalous:
            rate = max(0.01, s.mean_gain, 1 / (n + 1))
            self.repeat = float(np.float16(self.repeat + rate * (same - self.repeat)))
            pace = 1.0 if visits == 0 else max(s.calendar_gain, 1 / (visits + 1))
            self.calendar[hour] = usual + F(pace) * (x - usual)
            self.visits[hour] = min(visits + 1, 255)
            self.histogram[b] += 1
            if self.histogram[b] >= 250:
                self.histogram = [count // 2 for count in self.histogram]
            self.count += 1
        elif visits == 0:
            self.calendar[hour] = mean
        self.mean = new_mean
        return nats, onset


@examples(max_examples=25)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(0.01, 1.5),
    st.sampled_from([1.0, 2.0, 8.0, 100.0]),
    st.sampled_from([1, -1]),
)
def test_the_vectorised_pass_agrees_with_the_plain_rules(seed: int, spread: float, factor: float, digits: int) -> None:
    gauge = Gauge(name="load", kind=Anomaly.TOKEN_SPIKE, unit=2.0)
    settings = Settings(shift_samples=40)
    values = 100 * np.random.default_rng(seed).lognormal(0, spread, 260)
    values[180:220] *= factor
    values = np.round(values, digits)
    fleet = Baselines([gauge])
    row, plain = fleet.allot(), ScalarCell(gauge, settings)
    sentinel = Sentinel(fleet, settings)
    for i, value in enumerate(values):
        nats, onset = plain.tick(value, at=1800.0 * i)
        found = sentinel.tick([row], [[value]], at=1800.0 * i)
        expected = sigma_of(np.array([nats], np.float32))[0]
        # Below half a sigma the square root magnifies the last bit.
        assert max(found.sigma[0], 0.5) == pytest.approx(max(expected, 0.5), rel=2e-3)
        if abs(nats - settings.alarm_nats) > 0.02:
            assert bool(found.onset.any()) == onset
