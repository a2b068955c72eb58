"""Requests of real LLM services, taken as healthy: false alarms on them, and shifts and freezes put into them."""

import csv
import gzip
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from homeostat.immune.baseline import Baselines
from homeostat.immune.sentinel import Sentinel
from homeostat.immune.vitals import Vital

INPUT_COLUMNS: Final = ("ContextTokens", "input_length", "request_tokens")
OUTPUT_COLUMNS: Final = ("GeneratedTokens", "output_length", "response_tokens")
TIME_COLUMNS: Final = ("ts", "timestamp", "TIMESTAMP")
WARM_SAMPLES, STRIDE, PATIENCE = 1000, 60, 30

# What is done to the requests from some moment on: factors on input and output, or the same request for ever.
FAULTS: Final[dict[str, tuple[float, float]]] = {
    "doubled": (2.0, 2.0),
    "doubled_input_only": (2.0, 1.0),
    "doubled_output_only": (1.0, 2.0),
    "stuck": (1.0, 1.0),
}

Array = NDArray[np.float64]


def load(path: Path) -> tuple[Array, Array]:
    """Times in seconds, and (input, output) tokens of each request."""
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    named = {
        kind: next(c for c in names if c in rows[0])
        for kind, names in (("in", INPUT_COLUMNS), ("out", OUTPUT_COLUMNS), ("at", TIME_COLUMNS))
    }
    first = rows[0][named["at"]]
    if first.replace(".", "").isdigit():
        times = [float(row[named["at"]]) / 1000 for row in rows]
    else:
        times = [datetime.fromisoformat(row[named["at"]]).replace(tzinfo=UTC).timestamp() for row in rows]
    tokens = [[float(row[named["in"]]), float(row[named["out"]])] for row in rows]
    return np.array(times), np.array(tokens)


def vitals(tokens: Array) -> Array:
    """What the gateway would report of these requests; the rest of the vitals is not in the data."""
    sample = np.full((len(tokens), len(Vital)), np.nan)
    sample[:, Vital.TOKENS] = tokens.sum(axis=1)
    sample[:, Vital.TOKENS_IN] = tokens[:, 0]
    sample[:, Vital.TOKENS_OUT] = tokens[:, 1]
    return sample


def watch(times: Array, tokens: Array) -> tuple[int, list[tuple[int, bytes]]]:
    """False alarms over the whole stream, and what the baseline knew at the moments faults will start from."""
    fleet = Baselines(capacity=1)
    row, sentinel, samples = fleet.allot(), Sentinel(fleet), vitals(tokens)
    alarms, moments = 0, list[tuple[int, bytes]]()
    for i in range(len(samples)):
        if i >= WARM_SAMPLES and i % STRIDE == 0 and i + PATIENCE <= len(samples):
            moments.append((i, fleet.export(row)))
        alarms += bool(sentinel.tick([row], samples[i : i + 1], at=times[i]).onset.any())
    return alarms, moments


def delays(times: Array, tokens: Array, moments: list[tuple[int, bytes]], fault: str) -> Array:
    """Samples until each injected fault was found; infinite where it was not within the patience."""
    fleet = Baselines(capacity=len(moments))
    rows = np.array([fleet.allot() for _ in moments])
    for row, (_, state) in zip(rows, moments, strict=True):
        fleet.restore(int(row), state)
    sentinel, start = Sentinel(fleet), np.array([i for i, _ in moments])
    found = np.full(len(moments), np.inf)
    for k in range(PATIENCE):
        now = tokens[start if fault == "stuck" else start + k] * FAULTS[fault]
        hits = np.unique(sentinel.tick(rows, vitals(now), at=times[start + k]).row)
        found[hits] = np.minimum(found[hits], k + 1)
    return found


def measure(directory: Path) -> dict[str, Any]:
    streams: dict[str, Any] = {}
    pooled: dict[str, list[Array]] = {fault: [] for fault in FAULTS}
    alarms_total = requests_total = 0
    for path in sorted(directory.glob("*.csv.gz")):
        times, tokens = load(path)
        alarms, moments = watch(times, tokens)
        alarms_total, requests_total = alarms_total + alarms, requests_total + len(tokens)
        stream: dict[str, Any] = {"requests": len(tokens), "false_alarms_per_1000": 1000 * alarms / len(tokens)}
        for fault, series in pooled.items():
            found = delays(times, tokens, moments, fault)
            series.append(found)
            stream[fault] = float(np.isfinite(found).mean())
        streams[path.name.removesuffix(".csv.gz")] = stream
    return {
        "requests": requests_total,
        "false_alarms_per_1000": 1000 * alarms_total / requests_total,
        "found_within_samples": PATIENCE,
        "faults": {
            fault: {
                "injected": sum(len(found) for found in series),
                "found": float(np.isfinite(np.concatenate(series)).mean()),
                "median_samples": float(np.median(np.concatenate(series))),
            }
            for fault, series in pooled.items()
        },
        "streams": streams,
    }
