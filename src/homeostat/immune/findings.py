"""What a tick over the fleet found."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from homeostat.immune.baseline import Floats, Mask, Rows
from homeostat.immune.vitals import Anomaly

SIGMA_MAX: Final = 40.0

# Which statistic spoke. The first four have an envelope, in the order of the `pending` column.
SPIKE, LEVEL, SURPRISE, SHIFT, FREEZE = range(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One vital of one agent that is out of its bounds."""

    row: int
    vital: int
    kind: Anomaly
    sigma: float
    value: float
    expected: float
    onset: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Findings:
    """What one tick found: a score for every row that came in, and one entry per vital out of bounds.

    `sigma` is in the order of the rows that were given; the other arrays have one element per finding, and
    iterating gives `Finding` records. `onset` marks the first finding of an episode: that is what an operator
    is told, while the rest of the episode keeps the agent suspected.
    """

    sigma: Floats
    row: Rows
    vital: NDArray[np.intp]
    channel: NDArray[np.intp]
    sigmas: Floats
    value: Floats
    expected: Floats
    onset: Mask
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
    """The normal deviate whose one-sided tail is exp(-nats), so that sigma means the same on every vital."""
    nats = np.maximum(nats, np.float32(1.3))
    return np.minimum(np.sqrt(np.maximum(2 * nats - np.log(4 * np.pi * nats), 0)), np.float32(SIGMA_MAX))
