"""What is normal for each agent: the baselines of a whole fleet as columns of arrays."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import DTypeLike, NDArray

from homeostat.immune.vitals import GAUGES, Gauge

HISTOGRAM_BINS: Final = 32  # half octaves above a gauge's unit: 16 octaves, a factor of 65,536
CALENDAR_BINS: Final = 8  # three hours each; finer ones found no more on real streams
ACCELERATED_TICKS: Final = 50
SAMPLES_COUNTED_MAX: Final = 60_000  # counts are 16 bits wide and need no more
STATE_VERSION: Final = 1

Rows = NDArray[np.intp]
Floats = NDArray[np.float32]
Mask = NDArray[np.bool_]

# One entry per column: type, and the shape of one vital's share of it. An agent's whole state is the
# sum of these over its vitals; a test holds it under a kilobyte.
VITAL_COLUMNS: Final[dict[str, tuple[DTypeLike, tuple[int, ...]]]] = {
    "count": (np.uint16, ()),
    "mean": (np.float32, ()),
    "variance": (np.float32, ()),
    "last": (np.float32, ()),
    "level": (np.float32, ()),  # short-run mean
    "surprise": (np.float32, ()),  # short-run distance from what this time of day expects
    "shift": (np.float32, ()),  # evidence, in nats, that the values have doubled
    "spike_low": (np.float32, ()),
    "spike_high": (np.float32, ()),
    "level_low": (np.float32, ()),
    "level_high": (np.float32, ()),
    "surprise_high": (np.float32, ()),
    "shift_high": (np.float32, ()),
    "repeat": (np.float16, ()),  # how often a value equals the one before it
    "run": (np.uint16, ()),  # how long it has been equal now
    "quiet": (np.uint8, ()),  # samples left in which no new alarm is raised
    "pending": (np.int8, (4,)),  # how far the envelopes will widen once the episode has passed
    "histogram": (np.uint8, (HISTOGRAM_BINS,)),
    "calendar": (np.float32, (CALENDAR_BINS,)),
}
AGENT_COLUMNS: Final[dict[str, tuple[DTypeLike, tuple[int, ...]]]] = {
    "accelerated": (np.uint8, ()),
    "hours_seen": (np.uint8, (CALENDAR_BINS,)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Normal:
    """One vital's baseline in a reader's terms."""

    name: str
    samples: int
    mean: float
    deviation: float
    highest: float


class Baselines:
    """The fleet's baselines: one row per agent, one column per statistic.

    >>> fleet = Baselines()
    >>> row = fleet.allot()
    >>> fleet.samples(row)
    0
    >>> state = fleet.export(row)
    >>> fleet.restore(fleet.allot(), state)
    """

    def __init__(self, gauges: Sequence[Gauge] = GAUGES, *, capacity: int = 64) -> None:
        assert gauges
        assert capacity > 0
        self.gauges: Final = tuple(gauges)
        self._free: list[int] = []
        self._end = 0
        width = len(self.gauges)
        self._columns: dict[str, NDArray[Any]] = {
            **{name: np.zeros((capacity, width, *shape), kind) for name, (kind, shape) in VITAL_COLUMNS.items()},
            **{name: np.zeros((capacity, *shape), kind) for name, (kind, shape) in AGENT_COLUMNS.items()},
        }

    def __len__(self) -> int:
        return self._end - len(self._free)

    def column(self, name: str) -> NDArray[Any]:
        """The live column of that name; it is replaced when the fleet grows, so do not keep it."""
        return self._columns[name]

    @property
    def capacity(self) -> int:
        return len(self._columns["count"])

    @property
    def bytes_per_agent(self) -> int:
        return sum(column.nbytes for column in self._columns.values()) // self.capacity

    def allot(self) -> int:
        """A clean row for a new agent. Freed rows are used again, and room doubles when it is full."""
        if self._free:
            return self._free.pop()
        if self._end == self.capacity:
            for name, column in self._columns.items():
                self._columns[name] = np.concatenate([column, np.zeros_like(column)])
        self._end += 1
        return self._end - 1

    def free(self, row: int) -> None:
        """Give a row back; what it knew is gone."""
        assert 0 <= row < self._end
        assert row not in self._free
        self.reset([row])
        self._free.append(row)

    def reset(self, rows: Sequence[int] | Rows) -> None:
        """Hard reset: forget everything, so that min_samples must be met again."""
        for column in self._columns.values():
            column[rows] = 0

    def accelerate(self, rows: Sequence[int] | Rows) -> None:
        """Adapt fast for the next 50 ticks of these rows, and drop suspicions that are under way."""
        self._columns["accelerated"][rows] = ACCELERATED_TICKS
        self.settle(rows)

    def settle(self, rows: Sequence[int] | Rows) -> None:
        """Drop suspicions that are under way: what follows is judged by itself, against what was normal before."""
        for name in ("quiet", "pending", "shift", "run"):
            self._columns[name][rows] = 0
        self._columns["level"][rows] = self._columns["mean"][rows]
        self._columns["surprise"][rows] = 0

    def samples(self, row: int) -> int:
        """How many samples the best-known vital of this row has taught it."""
        return int(self._columns["count"][row].max())

    def ready(self, rows: Rows, min_samples: int) -> NDArray[np.bool_]:
        """Which rows know enough to be monitored."""
        return self._columns["count"][rows].max(axis=1) >= min_samples

    def normals(self, row: int) -> tuple[Normal, ...]:
        """What is normal for this agent, vital by vital."""
        column = self._columns
        return tuple(
            Normal(
                name=gauge.name,
                samples=int(column["count"][row, v]),
                mean=float(column["mean"][row, v]),
                deviation=float(np.sqrt(column["variance"][row, v])),
                highest=float(column["spike_high"][row, v]),
            )
            for v, gauge in enumerate(self.gauges)
        )

    def export(self, row: int) -> bytes:
        """This row's state for storage: a version byte, the number of vitals, then the columns in order."""
        head = bytes((STATE_VERSION, len(self.gauges)))
        return head + b"".join(column[row].tobytes() for column in self._columns.values())

    def restore(self, row: int, state: bytes) -> None:
        """Put back what `export` gave; raises ValueError on state of another shape."""
        if len(state) != 2 + self.bytes_per_agent or state[0] != STATE_VERSION or state[1] != len(self.gauges):
            raise ValueError("baseline state has another version or shape")
        at = 2
        for column in self._columns.values():
            size = column[row].nbytes
            column[row] = np.frombuffer(state, column.dtype, offset=at, count=column[row].size).reshape(
                column[row].shape
            )
            at += size
