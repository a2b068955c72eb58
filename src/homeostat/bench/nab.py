"""The Numenta Anomaly Benchmark: its streams, its standard scoring profile, and our sentinel on them."""

import csv
import gzip
import json
import math
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np

from homeostat.immune.baseline import Baselines
from homeostat.immune.sentinel import Sentinel
from homeostat.immune.vitals import Anomaly, Gauge

FALSE_ALARM: Final = 0.11  # the standard profile; hits and misses count 1
PROBATION_SHARE, PROBATION_MAX = 0.15, 750

# A signal of unknown kind and unit: it may be negative, a fall tells as much as a rise, it may rest at one
# value, and it may double by day as long as it did so before.
SIGNAL: Final = Gauge(
    name="signal", kind=Anomaly.DRIFT, unit=1e-9, falls=True, freezes=False, doubles=False, lowest=-math.inf
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """One stream with its labelled windows, as index ranges."""

    name: str
    times: list[float]
    values: list[float]
    windows: list[tuple[int, int]]

    @property
    def probation(self) -> int:
        return min(int(PROBATION_SHARE * len(self.values)), PROBATION_MAX)


def seconds(timestamp: str) -> float:
    return datetime.fromisoformat(timestamp).replace(tzinfo=UTC).timestamp()


def load(directory: Path) -> list[Stream]:
    rows: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
    with gzip.open(directory / "streams.csv.gz", "rt") as file:
        for row in csv.DictReader(file):
            rows[row["file"]].append((seconds(row["timestamp"]), float(row["value"])))
    labelled = json.loads((directory / "windows.json").read_text())
    streams: list[Stream] = []
    for name, samples in rows.items():
        times = [time for time, _ in samples]
        windows = [
            (
                int(np.searchsorted(times, seconds(first), "left")),
                int(np.searchsorted(times, seconds(last), "right")) - 1,
            )
            for first, last in labelled.get(name, [])
        ]
        streams.append(Stream(name=name, times=times, values=[value for _, value in samples], windows=windows))
    return streams


def sigmoid(position: float) -> float:
    """NAB's reward by position: near 1 at a window's left edge, 0 at its right, -1 far behind it."""
    return -1.0 if position > 3 else 2 / (1 + math.exp(5 * position)) - 1


def gain(stream: Stream, alarms: list[int]) -> float:
    """What these alarms earn over staying silent, in hits."""
    best = [-1.0] * len(stream.windows)
    penalty = 0.0
    for alarm in alarms:
        if alarm < stream.probation:
            continue
        inside = next((k for k, (left, right) in enumerate(stream.windows) if left <= alarm <= right), None)
        if inside is not None:
            left, right = stream.windows[inside]
            earned = sigmoid(-(right - alarm + 1) / (right - left + 1)) / sigmoid(-1.0)
            best[inside] = max(best[inside], earned)
            continue
        before = [window for window in stream.windows if window[1] < alarm]
        if not before:
            penalty -= FALSE_ALARM
        else:
            left, right = before[-1]
            penalty += FALSE_ALARM * sigmoid((alarm - right) / (right - left))
    return sum(best) + penalty + len(stream.windows)


def score(streams: list[Stream], alarms: list[list[int]]) -> float:
    """The normalised score: 0 for silence, 100 for an alarm at the first row of every window and none elsewhere."""
    windows = sum(len(stream.windows) for stream in streams)
    return 100 * sum(gain(stream, given) for stream, given in zip(streams, alarms, strict=True)) / (2 * windows)


def check(streams: list[Stream], directory: Path) -> float:
    """The scorer's largest error on the reference cases."""
    cases: dict[str, float] = json.loads((directory / "scorer_check.json").read_text())["cases"]
    rules: dict[str, list[list[int]]] = {
        "500": [list(range(0, len(stream.values), 500)) for stream in streams],
        "2000": [list(range(0, len(stream.values), 2000)) for stream in streams],
        "first row": [[left for left, _ in stream.windows] for stream in streams],
        "middle row": [[left + int(0.5 * (right - left)) for left, right in stream.windows] for stream in streams],
        "no alarm": [[] for _ in streams],
    }
    errors: list[float] = []
    for case, expected in cases.items():
        rule = next(key for key in ("2000", "500", "first row", "middle row", "no alarm") if key in case)
        errors.append(abs(score(streams, rules[rule]) - expected))
    return max(errors)


def watch(streams: list[Stream]) -> list[list[int]]:
    """Onsets the sentinel reports, all streams side by side as a fleet, each sample seen once and in order."""
    fleet = Baselines([SIGNAL], capacity=len(streams))
    rows = np.array([fleet.allot() for _ in streams])
    sentinel = Sentinel(fleet)
    alarms: list[list[int]] = [[] for _ in streams]
    for i in range(max(len(stream.values) for stream in streams)):
        live = [k for k, stream in enumerate(streams) if i < len(stream.values)]
        found = sentinel.tick(
            rows[live], [[streams[k].values[i]] for k in live], at=[streams[k].times[i] for k in live]
        )
        for row in found.row[found.onset]:
            alarms[int(row)].append(i)
    return alarms


def measure(directory: Path) -> dict[str, Any]:
    streams = load(directory)
    alarms = watch(streams)
    groups = sorted({stream.name.split("/")[0] for stream in streams if stream.windows})
    hits = sum(
        any(left <= alarm <= right for alarm in given if alarm >= stream.probation)
        for stream, given in zip(streams, alarms, strict=True)
        for left, right in stream.windows
    )
    outside = sum(
        not any(left <= alarm <= right for left, right in stream.windows)
        for stream, given in zip(streams, alarms, strict=True)
        for alarm in given
        if alarm >= stream.probation
    )
    paired = list(zip(streams, alarms, strict=True))
    return {
        "streams": len(streams),
        "samples": sum(len(stream.values) for stream in streams),
        "scorer_error": check(streams, directory) if (directory / "scorer_check.json").exists() else None,
        "score": score(streams, alarms),
        "windows_found": hits,
        "windows": sum(len(stream.windows) for stream in streams),
        "false_alarms": outside,
        "by_group": {
            group: score(*map(list, zip(*[p for p in paired if p[0].name.startswith(group)], strict=True)))
            for group in groups
        },
    }
