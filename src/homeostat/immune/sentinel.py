"""Compares every sample of the fleet with its agent's baseline, then lets the healthy ones teach it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from homeostat.immune.baseline import CALENDAR_BINS, HISTOGRAM_BINS, SAMPLES_COUNTED_MAX, Baselines, Floats, Rows
from homeostat.immune.vitals import Anomaly

BLOCK_ROWS: Final = 2048  # a block's working set stays in the processor's cache
DAY_SECONDS: Final = 86_400
SIGMA_MAX: Final = 40.0
SHIFT_STEP_NATS: Final = 2.5  # one sample never proves a shift
PENDING_SCALE: Final = 60  # int8 steps per record distance

SPIKE, LEVEL, SURPRISE, SHIFT, FREEZE = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One configuration for every agent and every vital."""

    min_samples: int = 30
    alarm_nats: float = 7.6  # a tail of 0.0005, 3.3 σ
    memory_samples: int = 1000  # a record over so many samples is the tail's anchor
    envelope_decay: float = 7e-5
    mean_gain: float = 0.005
    level_gain: float = 0.07
    calendar_gain: float = 0.02
    calendar_visits: int = 6
    spike_slope: float = 0.5  # single samples have heavier tails than averages
    relative_floor: float = 0.05  # spreads below this share of the mean are noise
    refractory_samples: int = 50
    shift_samples: int = 150
    shift_nats: float = 8.7
    clip: float = 1.0
    smooth: float = 0.5
    level_slope: float = 1.0
    early: float = 0.3
    freeze_chance: float = 0.4
    widen_max: float = 2.0  # what was severe stays alarming


@dataclass(frozen=True, slots=True)
class Finding:
    """One vital of one agent that is out of its bounds."""

    row: int
    vital: int
    kind: Anomaly
    sigma: float
    value: float
    expected: float
    onset: bool


@dataclass(frozen=True, slots=True)
class Findings:
    """What one tick found: a score for every row that came in, and one entry per vital out of bounds.

    `sigma` is in the order of the rows that were given. The other arrays have one element per finding.
    `onset` marks the first finding of an episode: it is what an operator is told, while the rest of the
    episode keeps the agent suspected.
    """

    sigma: Floats
    row: Rows
    vital: NDArray[np.intp]
    channel: NDArray[np.intp]
    sigmas: Floats
    value: Floats
    expected: Floats
    onset: NDArray[np.bool_]
    kinds: tuple[Anomaly, ...]

    def __len__(self) -> int:
        return len(self.row)

    def __iter__(self) -> Iterator[Finding]:
        for i in range(len(self.row)):
            channel, rising = int(self.channel[i]), bool(self.value[i] >= self.expected[i])
            kind = self.kinds[int(self.vital[i])]
            if channel == FREEZE:
                kind = Anomaly.STUCK
            elif channel == SHIFT or not rising:
                kind = Anomaly.DRIFT
            yield Finding(
                row=int(self.row[i]),
                vital=int(self.vital[i]),
                kind=kind,
                sigma=float(self.sigmas[i]),
                value=float(self.value[i]),
                expected=float(self.expected[i]),
                onset=bool(self.onset[i]),
            )


def sigma_of(nats: Floats) -> Floats:
    """The normal deviate whose one-sided tail is exp(-nats), so that σ means the same everywhere."""
    nats = np.maximum(nats, 1.0)
    return np.minimum(np.sqrt(np.maximum(2 * nats - np.log(4 * np.pi * nats), 0.0)), SIGMA_MAX)


def _half_source() -> NDArray[np.intp]:
    """For each histogram bin, the bin its values would have come from had they doubled."""
    return np.maximum(np.arange(HISTOGRAM_BINS) - 2, 0)


class Sentinel:
    """One vectorised pass per tick over whatever agents have something to report.

    A sample is one call (or one turn): a row of vitals, NaN where a vital was not measured. Each row comes
    at most once per tick; an agent with several calls since the last tick is ticked once for each, in order.

    >>> fleet = Baselines()
    >>> rows = np.array([fleet.allot(), fleet.allot()])
    >>> sentinel = Sentinel(fleet)
    >>> for i in range(40):
    ...     found = sentinel.tick(rows, [[900 + i, 500, 400, 100, 0.01, 1, 0, 0]] * 2, at=60.0 * i)
    >>> found = sentinel.tick(rows, [[920, 500, 400, 100, 0.01, 1, 0, 0], [92000, 500, 400, 100, 0.01, 1, 0, 0]], at=2400.0)
    >>> [(f.row, str(f.kind), f.sigma > 6, f.onset) for f in found]
    [(1, 'latency_spike', True, True)]
    """

    def __init__(self, baselines: Baselines, settings: Settings | None = None) -> None:
        self.baselines: Final = baselines
        self.settings: Final = settings or Settings()
        gauges = baselines.gauges
        self._unit = np.array([g.unit for g in gauges], np.float32)
        self._lowest = np.array([g.lowest for g in gauges], np.float32)
        self._falls = np.array([g.falls for g in gauges])
        self._freezes = np.array([g.freezes for g in gauges])
        self._kinds = tuple(g.kind for g in gauges)
        self._source = _half_source()
        self._log_count = np.log(np.arange(256) + self.settings.smooth).astype(np.float32)

    def tick(self, rows: ArrayLike, samples: ArrayLike, *, at: ArrayLike, learn: ArrayLike | None = None) -> Findings:
        """Score the samples, then learn from those that are healthy and whose row may learn.

        `at` is the time of the samples in seconds, one for all or one each; `learn` masks the rows whose
        phase lets a baseline learn. A row that may not learn is scored all the same.
        """
        rows = np.asarray(rows, np.intp)
        values = np.asarray(samples, np.float32).reshape(len(rows), len(self._kinds))
        times = np.broadcast_to(np.asarray(at, np.float64), rows.shape)
        may_learn = np.ones(len(rows), bool) if learn is None else np.broadcast_to(np.asarray(learn, bool), rows.shape)
        assert not len(rows) or np.bincount(rows).max() == 1, "a row comes at most once per tick"
        parts = [
            self._block(rows[i : i + BLOCK_ROWS], values[i : i + BLOCK_ROWS], times[i : i + BLOCK_ROWS], may_learn[i : i + BLOCK_ROWS])
            for i in range(0, len(rows), BLOCK_ROWS)
        ]
        if not parts:
            return Findings(*(np.zeros(0, t) for t in (np.float32, np.intp, np.intp, np.intp, np.float32, np.float32, np.float32, bool)), self._kinds)
        return Findings(*(np.concatenate(c) for c in zip(*parts, strict=True)), self._kinds)

    def _block(self, rows: Rows, x: Floats, times: NDArray[np.float64], may_learn: NDArray[np.bool_]) -> tuple[Any, ...]:
        s, col = self.settings, self.baselines.column
        at: Any = rows
        if len(rows) and rows[-1] - rows[0] == len(rows) - 1 and (np.diff(rows) == 1).all():
            at = slice(int(rows[0]), int(rows[-1]) + 1)  # views, not copies
        one = np.float32(1)
        count, mean = col("count")[at], col("mean")[at]
        measured = np.isfinite(x) & (x >= self._lowest) & (np.abs(x) < 1e30)
        first = measured & (count == 0)
        mean = np.where(first, x, mean)
        x = np.where(measured, x, mean)
        n = count.astype(np.float32)
        hour = ((times % DAY_SECONDS) * (CALENDAR_BINS / DAY_SECONDS)).astype(np.intp) % CALENDAR_BINS
        line = np.arange(len(rows))
        calendar = col("calendar")
        usual = calendar[rows, :, hour]
        known = (col("hours_seen")[rows, hour] >= s.calendar_visits)[:, None] & measured
        width = np.abs(mean) * np.float32(s.relative_floor) + self._unit

        # Score. Every channel is a statistic against its own record: log(n) nats at the record, and in
        # proportion beyond it (an exponential tail through the record).
        spike_low, spike_high = col("spike_low")[at], col("spike_high")[at]
        spike_low, spike_high = np.where(first, x, spike_low), np.where(first, x, spike_high)
        up, down = np.maximum(spike_high - mean, width), np.maximum(mean - spike_low, width)
        off = x - mean
        spike = np.maximum(off / up, np.where(self._falls, off / -down, 0))
        warm = n >= s.min_samples
        within = np.where(warm, np.clip(x, mean - s.clip * down, mean + s.clip * up), x)  # one wild sample moves no average far
        level = np.where(first, x, col("level")[at])
        level = np.where(measured, level + np.float32(s.level_gain) * (within - level), level)
        level_low, level_high = np.where(first, x, col("level_low")[at]), np.where(first, x, col("level_high")[at])
        level_up, level_down = np.maximum(level_high - mean, width), np.maximum(mean - level_low, width)
        tilt = level - mean
        tilted = np.maximum(tilt / level_up, np.where(self._falls, tilt / -level_down, 0))
        surprise = col("surprise")[at]
        surprise = np.where(known, surprise + np.float32(s.level_gain) * (np.abs(within - usual) - surprise), surprise)
        surprise_high = np.maximum(col("surprise_high")[at], width)
        surprised = np.where(known, surprise / surprise_high, 0)
        if not self._falls.all():
            surprised = np.where(self._falls | (off > 0), surprised, 0)

        flat = (rows[:, None] * x.shape[1] + np.arange(x.shape[1])) * HISTOGRAM_BINS
        histogram = col("histogram").reshape(-1)
        bins = np.clip(2 * np.log2(np.maximum(np.abs(x) / self._unit, 0.25)) + 1, 0, HISTOGRAM_BINS - 1).astype(np.intp)
        here = histogram[flat + bins]
        step = self._log_count[histogram[flat + self._source[bins]]] - self._log_count[here]
        step = np.clip(step, -SHIFT_STEP_NATS, SHIFT_STEP_NATS)
        shift_high = np.maximum(col("shift_high")[at], np.float32(s.shift_nats))
        shift = col("shift")[at]
        shift = np.where(measured & (n >= s.shift_samples), np.clip(shift + step, 0, 3 * shift_high), shift)
        shifted = shift / shift_high

        last = col("last")[at]
        same = measured & (x == last) & (count > 0)
        run = np.where(measured, np.where(same, np.minimum(col("run")[at], 60000) + 1, 0), col("run")[at])
        repeat = np.where(first, 0.5, col("repeat")[at].astype(np.float32))
        chance = np.maximum(repeat, np.float32(s.freeze_chance))
        frozen = np.where(self._freezes & (chance < 0.98), run * -np.log(chance), 0)

        anchor = np.log(np.clip(n, 2, s.memory_samples)) * np.minimum((n + 1) / s.memory_samples, one) ** np.float32(s.early)
        spike_nats = anchor * np.where(spike > 1, 1 + (spike - 1) * np.float32(s.spike_slope), spike)
        level_nats = anchor * np.where(tilted > 1, 1 + (tilted - 1) * np.float32(s.level_slope), tilted)
        # The more vitals are looked at, the likelier one of them is far out by chance.
        chances = np.log(np.maximum(measured.sum(axis=1, keepdims=True), 1), dtype=np.float32)
        shift_nats = np.float32(s.alarm_nats) + shift - shift_high * np.where(n < s.shift_samples * 4, 2, one)
        nats = np.stack([spike_nats - chances, level_nats - chances, anchor * surprised - chances, shift_nats, frozen - chances])
        channel = nats.argmax(axis=0)
        worst = np.where(measured & warm, nats.max(axis=0), 0)
        anomalous = worst >= s.alarm_nats
        quiet = col("quiet")[at]
        onset = anomalous & (quiet == 0)
        closing = measured & (quiet == 1)

        # Learn. What is out of bounds teaches nothing; what passed without anyone acting widens the
        # envelopes once its episode is over.
        allowed = may_learn[:, None] & measured
        quiet = np.where(onset, s.refractory_samples, np.where(measured & (quiet > 0), quiet - 1, quiet))
        episode = quiet > 0
        teach = allowed & ~anomalous
        fast = col("accelerated")[at] > 0
        boost = np.where(fast, np.float32(10), one)[:, None]
        gain = np.where(teach, np.maximum(np.float32(s.mean_gain) * boost, one / (n + one)), 0)
        new_mean = mean + gain * off
        col("variance")[at] = (one - gain) * (col("variance")[at] + gain * off * off)
        col("mean")[at] = new_mean
        decay = np.float32(s.envelope_decay) * boost * boost
        pending = col("pending")[at]
        ratios = (spike, tilted, surprised, shifted)
        grown: list[Floats] = []
        fresh: list[NDArray[np.int8]] = []
        for k, ratio in enumerate(ratios):
            over = episode & warm & (ratio > 1) & allowed
            sign = np.where((off if k == SPIKE else tilt) < 0, -1, 1) if k in (SPIKE, LEVEL) else 1
            wait = np.where(over, np.minimum(ratio - 1, np.float32(s.widen_max)) * PENDING_SCALE * sign, 0).astype(np.int8)
            wait = np.where(np.abs(wait) > np.abs(pending[..., k]), wait, pending[..., k])
            widen = np.where(closing & allowed, wait, 0) * np.float32(1 / PENDING_SCALE)
            wait = np.where(closing | ~may_learn[:, None], 0, wait)
            grown.append(widen)
            fresh.append(wait)
        col("pending")[at] = np.stack(fresh, axis=-1)
        lesson = allowed & ~(episode & warm)

        def envelope(name: str, low: Floats, high: Floats, y: Floats, k: int, wide_down: Floats, wide_up: Floats) -> None:
            ok = allowed & ~(episode & warm & (ratios[k] > 1))
            high = high + np.maximum(grown[k], 0) * wide_up
            low = low + np.minimum(grown[k], 0) * wide_down
            col(name + "_high")[at] = np.where(ok, np.maximum(y, high + decay * (new_mean - high)), high)
            col(name + "_low")[at] = np.where(ok, np.minimum(y, low + decay * (new_mean - low)), low)

        envelope("spike", spike_low, spike_high, x, SPIKE, down, up)
        envelope("level", level_low, level_high, level, LEVEL, level_down, level_up)
        for k, name, y, high in ((SURPRISE, "surprise", surprise, surprise_high), (SHIFT, "shift", shift, shift_high)):
            ok = allowed & ~(episode & warm & (ratios[k] > 1))
            high = high * (1 + grown[k])
            col(name + "_high")[at] = np.where(ok, np.maximum(y, high * (one - decay)), high)
        del lesson
        col("level")[at] = level
        col("surprise")[at] = surprise
        col("shift")[at] = shift
        rate = np.where(allowed & ~anomalous, np.maximum(np.float32(0.01), one / (n + 2)), 0)
        col("repeat")[at] = repeat + rate * (same - repeat)
        col("run")[at] = run
        col("last")[at] = np.where(measured, x, last)
        col("quiet")[at] = quiet
        col("count")[at] = np.where(teach, np.minimum(count + one, SAMPLES_COUNTED_MAX), count)
        col("accelerated")[at] -= fast.astype(np.uint8)
        seen = col("hours_seen")
        visits = seen[rows, hour]
        blank = (visits == 0)[:, None]
        pace = np.maximum(np.float32(s.calendar_gain), one / (visits.astype(np.float32) + one))[:, None]
        calendar[rows, :, hour] = np.where(teach, np.where(blank, x, usual + pace * (x - usual)), np.where(blank, mean, usual))
        seen[rows, hour] = np.where(teach.any(axis=1) & (visits < 255), visits + 1, visits)
        cells = (flat + bins)[teach]
        histogram[cells] += 1
        full = np.flatnonzero(histogram[cells] >= 250)
        if len(full):
            whole = col("histogram").reshape(-1, HISTOGRAM_BINS)
            which = np.unique(cells[full] // HISTOGRAM_BINS)
            whole[which] //= 2

        sigma = sigma_of(worst.max(axis=1))
        r, v = np.nonzero(anomalous)
        expected = np.where(known[r, v], usual[r, v], mean[r, v])
        del line
        return sigma, rows[r], v, channel[r, v], sigma_of(worst[r, v]), x[r, v], expected, onset[r, v]
