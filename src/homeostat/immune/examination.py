"""The arithmetic of one tick on a run of rows: score against the baseline, then learn."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from homeostat.immune.baseline import CALENDAR_BINS, HISTOGRAM_BINS, SAMPLES_COUNTED_MAX, Baselines, Floats, Mask, Rows
from homeostat.immune.findings import LEVEL, SHIFT, SPIKE, SURPRISE, sigma_of

DAY_SECONDS: Final = 86_400
VALUE_MAX: Final = 1e15  # larger than any vital and far from overflow when squared
SHIFT_STEP_NATS: Final = 2.5  # no single sample proves a shift
FREEZE_RUN_MIN: Final = 4
FREEZE_HABIT: Final = 0.98  # a stream that repeats itself this often is not stuck, it is so by nature
HISTOGRAM_FULL: Final = 250
LOWEST_BINS: Final = 3  # whatever is less than two units: half of that is less than one, where bins end
PENDING_SCALE: Final = 30  # int8 steps per record distance
ACCELERATION: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One configuration for every agent and every vital."""

    min_samples: int = 30
    alarm_nats: float = 7.6  # a tail of 0.0005, or 3.3 sigma
    memory_samples: int = 1000  # the record of so many samples is the tail's anchor
    youth_power: float = 0.3  # how much less a young record is trusted
    envelope_decay: float = 7e-5
    mean_gain: float = 0.005
    level_gain: float = 0.07
    calendar_gain: float = 0.02
    calendar_visits: int = 6
    spike_slope: float = 0.5  # single samples have heavier tails than averages
    relative_floor: float = 0.05  # a spread below this share of the mean is noise
    refractory_samples: int = 50
    shift_samples: int = 150
    shift_nats: float = 8.7  # evidence for a doubling that chance gives once in 6,000 samples
    freeze_chance: float = 0.4  # repetition is never held less likely than this
    widen_max: float = 4.0  # a passed episode widens an envelope fivefold at most: what was severe stays alarming


class Rules:
    """Settings and gauges in the form the arithmetic wants: float32 scalars, rows and lookup tables."""

    def __init__(self, baselines: Baselines, settings: Settings) -> None:
        gauges, f32 = baselines.gauges, np.float32
        self.baselines: Final = baselines
        self.settings: Final = settings
        self.unit: Final = np.array([g.unit for g in gauges], f32)
        self.lowest: Final = np.array([g.lowest for g in gauges], f32)
        self.falls: Final = np.array([g.falls for g in gauges])
        self.any_falls: Final = bool(self.falls.any())
        self.freezes: Final = np.array([g.freezes for g in gauges])
        self.doubles: Final = np.array([g.doubles for g in gauges])
        count = np.arange(settings.memory_samples + 1, dtype=f32)
        youth = np.minimum((count + 1) / settings.memory_samples, 1) ** settings.youth_power
        # What a value exactly at the record is worth, by the number of samples the record was set over.
        self.anchor: Final = (np.log(np.maximum(count, 2)) * youth).astype(f32)
        self.gain: Final = np.maximum(settings.mean_gain, 1 / (count + 1)).astype(f32)
        self.log_count: Final = np.log(np.arange(LOWEST_BINS * 256) + 0.5).astype(f32)
        self.log_vitals: Final = np.log(np.maximum(np.arange(len(gauges) + 1), 1)).astype(f32)


@dataclass(slots=True)
class Found:
    """One block's share of the findings."""

    sigma: Floats
    row: Rows
    vital: NDArray[np.intp]
    channel: NDArray[np.intp]
    sigmas: Floats
    value: Floats
    expected: Floats
    onset: Mask


_NO_INDEX: Final = np.zeros(0, np.intp)
_NO_FLOAT: Final = np.zeros(0, np.float32)
NOTHING: Final = Found(
    _NO_FLOAT, _NO_INDEX, _NO_INDEX, _NO_INDEX, _NO_FLOAT, _NO_FLOAT, _NO_FLOAT, np.zeros(0, np.bool_)
)


class Block:
    """A tick's work on a run of rows. `tick` reads top-down: score, mark episodes, learn."""

    spike: NDArray[Any]
    tilted: NDArray[Any]
    surprised: NDArray[Any]
    surprise: NDArray[Any]
    within: NDArray[Any]
    shift: NDArray[Any]
    run: NDArray[Any]
    lesson: list[NDArray[Any]]

    def __init__(self, rules: Rules, rows: Rows, x: Floats, times: NDArray[np.float64], may_learn: Mask) -> None:
        self.rules = rules
        self.rows = rows
        self.may_learn = may_learn[:, None]
        # Neighbouring rows are reached as views; the gathered copies cost twice as much.
        dense = rows[-1] - rows[0] == len(rows) - 1
        self.at: Any = slice(int(rows[0]), int(rows[-1]) + 1) if dense else rows
        self.count = self.get("count")
        self.mean = self.get("mean")
        self.measured = (x >= rules.lowest) & (np.abs(x) < VALUE_MAX)  # false for NaN
        if (fresh := self.measured & (self.count == 0)).any():
            self._begin(fresh, x)
        self.x = np.where(self.measured, x, self.mean)
        self.known_count = np.minimum(self.count, rules.settings.memory_samples)
        hour = (times % DAY_SECONDS * (CALENDAR_BINS / DAY_SECONDS)).astype(np.intp) % CALENDAR_BINS
        if dense and (hour[0] == hour).all():
            self.hour: Any = (self.at, slice(None), int(hour[0]))
            self.hour_seen: Any = (self.at, int(hour[0]))
        else:
            self.hour, self.hour_seen = (rows, slice(None), hour), (rows, hour)

    def get(self, name: str) -> NDArray[Any]:
        return self.rules.baselines.column(name)[self.at]

    def put(self, name: str, value: NDArray[Any]) -> None:
        self.rules.baselines.column(name)[self.at] = value

    def tick(self) -> Found:
        self._score_spike_and_level()
        self._score_surprise()
        self._score_shift()
        self._score_freeze()
        self._judge()
        found = self._report()
        self._episodes()
        self._learn_mean()
        self._learn_envelopes()
        self._learn_distribution()
        return found

    def _begin(self, fresh: Mask, x: Floats) -> None:
        """A vital's first sample is its first mean, level and record."""
        for name in ("mean", "level", "spike_low", "spike_high", "level_low", "level_high"):
            self.put(name, np.where(fresh, x, self.get(name)))
        self.put("repeat", np.where(fresh, np.float16(0.5), self.get("repeat")))
        self.mean = self.get("mean")

    def _score_spike_and_level(self) -> None:
        rules, mean, x = self.rules, self.mean, self.x
        self.width = np.abs(mean) * np.float32(rules.settings.relative_floor) + rules.unit
        self.off = x - mean
        self.spike_up = np.maximum(self.get("spike_high") - mean, self.width)
        self.spike = self.off / self.spike_up
        # One wild sample must not move an average far: averages see it as no more than the record.
        self.within = np.minimum(x, mean + self.spike_up)
        if rules.any_falls:
            self.spike_down = np.maximum(mean - self.get("spike_low"), self.width)
            self.spike = np.maximum(self.spike, np.where(rules.falls, self.off / -self.spike_down, 0))
            self.within = np.maximum(self.within, mean - self.spike_down)
        self.pace = np.where(self.measured, np.float32(rules.settings.level_gain), np.float32(0))
        level = self.get("level")
        self.level = level + self.pace * (self.within - level)
        self.tilt = self.level - mean
        self.level_up = np.maximum(self.get("level_high") - mean, self.width)
        self.tilted = self.tilt / self.level_up
        if rules.any_falls:
            self.level_down = np.maximum(mean - self.get("level_low"), self.width)
            self.tilted = np.maximum(self.tilted, np.where(rules.falls, self.tilt / -self.level_down, 0))

    def _score_surprise(self) -> None:
        """How far the last samples were from what this time of day expects, against the farthest so far."""
        rules, column = self.rules, self.rules.baselines.column
        self.visits = column("hours_seen")[self.hour_seen]
        self.usual = column("calendar")[self.hour]
        known = self.visits >= rules.settings.calendar_visits
        surprise = self.get("surprise")
        self.surprise_high = np.maximum(self.get("surprise_high"), self.width)
        if not known.any():
            self.surprise, self.surprised = surprise, np.zeros_like(self.x)
            return
        pace = np.where(known[:, None], self.pace, np.float32(0))
        apart = self.within - self.usual
        apart = np.where(rules.falls, np.abs(apart), np.maximum(apart, 0))
        self.surprise = surprise + pace * (apart - surprise)
        self.surprised = np.where(known[:, None], self.surprise / self.surprise_high, np.float32(0))

    def _score_shift(self) -> None:
        """A running test of "twice as large as usual" against "as usual", on the learned distribution."""
        rules, s = self.rules, self.rules.settings
        cells = (self.rows[:, None] * len(rules.unit) + np.arange(len(rules.unit))) * HISTOGRAM_BINS
        octaves = np.log2(np.maximum(np.abs(self.x) / rules.unit, np.float32(0.25)))
        bins = np.clip(2 * octaves + 1, 0, HISTOGRAM_BINS - 1).astype(np.intp)
        self.cells = cells + bins
        histogram = rules.baselines.column("histogram").reshape(-1)
        before = histogram[cells + np.maximum(bins - 2, 0)]  # two half octaves below: where half of it would lie
        here = histogram[self.cells].astype(np.intp)
        # The halves of the lowest bins share one: so do they, or chance alone would look like a doubling.
        low = bins < LOWEST_BINS
        here[low] = sum(histogram[cells[low] + k].astype(np.intp) for k in range(LOWEST_BINS))
        step = rules.log_count[before] - rules.log_count[here]
        step = np.clip(step, -SHIFT_STEP_NATS, SHIFT_STEP_NATS)
        self.shift_high = np.maximum(self.get("shift_high"), np.float32(s.shift_nats))
        shift = self.get("shift")
        ripe = self.measured & (self.count >= s.shift_samples) & rules.doubles
        self.shift = np.where(ripe, np.minimum(np.maximum(shift + step, 0), 3 * self.shift_high), shift)

    def _score_freeze(self) -> None:
        rules = self.rules
        last, run = self.get("last"), self.get("run")
        self.same = self.measured & (self.x == last) & (self.count > 0)
        self.run = np.where(self.same, np.minimum(run, SAMPLES_COUNTED_MAX) + 1, np.where(self.measured, 0, run))
        self.frozen: NDArray[Any] | None = None
        if (long := (self.run >= FREEZE_RUN_MIN) & rules.freezes).any():
            chance = np.maximum(self.get("repeat")[long].astype(np.float32), np.float32(rules.settings.freeze_chance))
            self.frozen = np.zeros_like(self.x)
            self.frozen[long] = np.where(chance < FREEZE_HABIT, self.run[long] * -np.log(chance), 0)

    def _judge(self) -> None:
        """Nats of the worst channel. A statistic at its own record is worth the anchor, beyond it in proportion."""
        rules, s = self.rules, self.rules.settings
        slope = np.float32(s.spike_slope)
        self.spiking = np.minimum(self.spike, (1 - slope) + slope * self.spike)
        anchor = rules.anchor[self.known_count]
        # The more vitals are looked at, the likelier one of them is far out by chance.
        self.chances = rules.log_vitals[np.count_nonzero(self.measured, axis=1)][:, None]
        nats = np.maximum(np.maximum(self.spiking, self.tilted), self.surprised) * anchor
        if self.frozen is not None:
            nats = np.maximum(nats, self.frozen)
        nats -= self.chances
        young = np.where(self.count < 4 * s.shift_samples, np.float32(2), np.float32(1))
        shift_nats = np.float32(s.alarm_nats) + self.shift - self.shift_high * young
        self.shift_nats = np.where(self.tilt > 0, shift_nats, np.float32(0))  # nothing doubled while the level is low
        nats = np.maximum(nats, self.shift_nats)
        self.warm = self.count >= s.min_samples
        self.nats = np.where(self.measured & self.warm, nats, np.float32(0))
        self.anomalous = self.nats >= np.float32(s.alarm_nats)
        self.alarmed = bool(self.anomalous.any())

    def _report(self) -> Found:
        sigma = sigma_of(self.nats.max(axis=1))
        self.quiet = self.get("quiet")
        if not self.alarmed:
            return Found(sigma, _NO_INDEX, _NO_INDEX, _NO_INDEX, _NO_FLOAT, _NO_FLOAT, _NO_FLOAT, np.zeros(0, np.bool_))
        r, v = np.nonzero(self.anomalous)
        anchor = self.rules.anchor[self.known_count[r, v]]
        channels = [anchor * self.spiking[r, v], anchor * self.tilted[r, v], anchor * self.surprised[r, v]]
        channels.append(self.shift_nats[r, v] + self.chances[r, 0])
        channels.append(self.frozen[r, v] if self.frozen is not None else np.zeros_like(anchor))
        return Found(
            sigma=sigma,
            row=self.rows[r],
            vital=v,
            channel=np.argmax(channels, axis=0),
            sigmas=sigma_of(self.nats[r, v]),
            value=self.x[r, v],
            expected=np.where(self.visits[r] >= self.rules.settings.calendar_visits, self.usual[r, v], self.mean[r, v]),
            onset=self.quiet[r, v] == 0,
        )

    def _episodes(self) -> None:
        """Open, count down and close episodes.

        What passed without anyone acting widens the envelopes once it is over, and never by much.
        """
        s = self.rules.settings
        allowed = self.measured & self.may_learn
        if not self.alarmed and not self.quiet.any():
            self.teach, self.lesson = allowed, [allowed] * 4
            return
        sick = self.anomalous.any(axis=1, keepdims=True)
        self.teach = allowed & ~sick  # a sample with one vital out of bounds teaches none of them
        opening = self.anomalous & (self.quiet == 0)
        closing = self.measured & (self.quiet == 1)
        quiet = np.where(opening, np.uint8(s.refractory_samples), self.quiet - (self.measured & (self.quiet > 0)))
        self.put("quiet", quiet)
        episode = (quiet > 0) & self.warm
        ratios = (self.spike, self.tilted, self.surprised, self.shift / self.shift_high)
        # Records stand still where they would be broken; elsewhere they go on fading.
        self.lesson = [allowed & ~((episode | sick) & (ratio > 1)) for ratio in ratios]
        r, v = np.nonzero(episode | closing)
        pending = self.get("pending")
        waiting = pending[r, v]
        learn, close = self.may_learn[r, 0], closing[r, v]
        for k, ratio in enumerate(ratios):
            over = np.minimum(ratio[r, v] - 1, np.float32(s.widen_max))
            over = np.where(episode[r, v] & learn, np.maximum(over, 0) * PENDING_SCALE, 0)
            falling = {SPIKE: self.off, LEVEL: self.tilt}.get(k)
            if falling is not None:
                over = np.where(falling[r, v] < 0, -over, over)
            waiting[:, k] = np.where(np.abs(over) > np.abs(waiting[:, k]), over, waiting[:, k])
        widen = np.where((close & learn)[:, None], waiting, 0) * np.float32(1 / PENDING_SCALE)
        waiting[close | ~learn] = 0
        pending[r, v] = waiting
        self.put("pending", pending)
        self._widen(r, v, widen)

    def _widen(self, r: NDArray[np.intp], v: NDArray[np.intp], widen: Floats) -> None:
        def stretch(name: str, amount: Floats) -> None:
            column = self.get(name)
            column[r, v] += amount
            self.put(name, column)

        up = np.maximum(widen, 0)
        stretch("spike_high", up[:, SPIKE] * self.spike_up[r, v])
        stretch("level_high", up[:, LEVEL] * self.level_up[r, v])
        if self.rules.any_falls:
            down = np.minimum(widen, 0)
            stretch("spike_low", down[:, SPIKE] * self.spike_down[r, v])
            stretch("level_low", down[:, LEVEL] * self.level_down[r, v])
        self.surprise_high[r, v] *= 1 + up[:, SURPRISE]
        self.shift_high[r, v] *= 1 + up[:, SHIFT]

    def _learn_mean(self) -> None:
        rules = self.rules
        gain = rules.gain[self.known_count]
        self.decay: Any = np.float32(rules.settings.envelope_decay)
        hurry = self.get("accelerated")
        self.hurrying = hurry > 0
        if (fast := self.hurrying).any():
            gain = np.where(fast[:, None], np.maximum(gain, np.float32(rules.settings.mean_gain * ACCELERATION)), gain)
            self.decay = np.where(fast[:, None], self.decay * ACCELERATION**2, self.decay)
            self.put("accelerated", hurry - fast)
        gain *= self.teach
        toward = gain * self.off
        variance = self.get("variance")
        self.put("variance", (1 - gain) * (variance + toward * self.off))
        self.new_mean = self.mean + toward
        self.put("mean", self.new_mean)
        self.put("count", np.minimum(self.count, SAMPLES_COUNTED_MAX) + self.teach)

    def _learn_envelopes(self) -> None:
        spike, level, surprise, shift = self.lesson
        self._learn_record("spike_high", np.maximum, self.x, spike)
        self._learn_record("level_high", np.maximum, self.level, level)
        if self.rules.any_falls:
            self._learn_record("spike_low", np.minimum, self.x, spike)
            self._learn_record("level_low", np.minimum, self.level, level)
        keep = 1 - self.decay
        self.put(
            "surprise_high",
            np.where(surprise, np.maximum(self.surprise, self.surprise_high * keep), self.surprise_high),
        )
        self.put("shift_high", np.where(shift, np.maximum(self.shift, self.shift_high * keep), self.shift_high))
        self.put("level", self.level)
        self.put("surprise", self.surprise)
        self.put("shift", self.shift)

    def _learn_record(self, name: str, further: Any, value: Floats, lesson: Mask) -> None:
        """A record fades towards the mean, until something goes further."""
        record = self.get(name)
        self.put(name, np.where(lesson, further(value, record + self.decay * (self.new_mean - record)), record))

    def _learn_distribution(self) -> None:
        rules, s, column = self.rules, self.rules.settings, self.rules.baselines.column
        repeat = self.get("repeat").astype(np.float32)
        rate = np.where(self.teach, np.maximum(np.float32(0.01), rules.gain[self.known_count]), np.float32(0))
        self.put("repeat", repeat + rate * (self.same - repeat))
        self.put("run", self.run)
        self.put("last", np.where(self.measured, self.x, self.get("last")))

        visits = self.visits[:, None]
        least = np.where(self.hurrying[:, None], s.calendar_gain * ACCELERATION, s.calendar_gain).astype(np.float32)
        pace = np.where(visits == 0, np.float32(1), np.maximum(least, 1 / (visits + np.float32(1))))
        target = np.where(self.teach | (visits > 0), self.x, self.mean)
        step = np.where(self.teach | (visits == 0), pace * (target - self.usual), 0)
        column("calendar")[self.hour] = self.usual + step
        column("hours_seen")[self.hour_seen] = self.visits + (self.teach.any(axis=1) & (self.visits < 255))

        histogram = column("histogram")
        cells = self.cells[self.teach]
        flat = histogram.reshape(-1)
        counted = flat[cells] + 1
        flat[cells] = counted
        if (full := counted >= HISTOGRAM_FULL).any():
            histogram.reshape(-1, HISTOGRAM_BINS)[cells[full] // HISTOGRAM_BINS] //= 2
