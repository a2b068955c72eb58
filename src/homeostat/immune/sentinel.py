"""Compares every sample of the fleet with its agent's baseline, then lets the healthy ones teach it."""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from homeostat.immune.baseline import Baselines, Rows
from homeostat.immune.examination import NOTHING, Block, Found, Rules, Settings
from homeostat.immune.findings import Finding, Findings

__all__ = ["Finding", "Findings", "Sentinel", "Settings"]

BLOCK_ROWS: Final = 2048  # a block's working set stays in the processor's cache


class Sentinel:
    """One vectorised pass per tick over whatever agents have something to report.

    A sample is one call (or one turn): a row of vitals, NaN where a vital was not measured. Each row comes
    at most once per tick; an agent with several calls since the last tick is ticked once for each, in order.

    >>> fleet = Baselines()
    >>> rows = [fleet.allot(), fleet.allot()]
    >>> sentinel = Sentinel(fleet)
    >>> usual = [900, 500, 400, 100, 0.01, 1, 0, 0]
    >>> for i in range(40):
    ...     found = sentinel.tick(rows, [usual, usual], at=60.0 * i)
    >>> found = sentinel.tick(rows, [usual, [90_000, *usual[1:]]], at=2400.0)
    >>> [(f.row, f.kind.value, f.sigma > 6, f.onset) for f in found]
    [(1, 'latency_spike', True, True)]
    """

    def __init__(self, baselines: Baselines, settings: Settings | None = None) -> None:
        self.baselines: Final = baselines
        self.settings: Final = settings or Settings()
        self.kinds: Final = tuple(gauge.kind for gauge in baselines.gauges)
        self.rules: Final = Rules(baselines, self.settings)

    def tick(self, rows: ArrayLike, samples: ArrayLike, *, at: ArrayLike, learn: ArrayLike | None = None) -> Findings:
        """Score the samples, then learn from those that are healthy and whose row may learn.

        `at` is the time of the samples in seconds, one for all or one each; `learn` masks the rows whose
        phase lets a baseline learn. A row that may not learn is scored all the same.
        """
        given = np.asarray(rows, np.intp).reshape(-1)
        values = np.asarray(samples, np.float32).reshape(len(given), len(self.kinds))
        times = np.broadcast_to(np.asarray(at, np.float64), given.shape)
        may_learn = np.broadcast_to(np.asarray(True if learn is None else learn, np.bool_), given.shape)
        assert len(given) == 0 or np.bincount(given).max() == 1, "a row comes at most once per tick"
        order: Rows | None = None
        if len(given) > 1 and (np.diff(given) < 0).any():
            order = np.argsort(given)
            given, values, times, may_learn = given[order], values[order], times[order], may_learn[order]
        parts: list[Found] = []
        for i in range(0, len(given), BLOCK_ROWS):
            span = slice(i, i + BLOCK_ROWS)
            parts.append(Block(self.rules, given[span], values[span], times[span], may_learn[span]).tick())
        if not parts:
            parts.append(NOTHING)
        sigma = np.concatenate([part.sigma for part in parts])
        if order is not None:
            sigma[order] = sigma.copy()
        return Findings(
            sigma=sigma,
            row=np.concatenate([part.row for part in parts]),
            vital=np.concatenate([part.vital for part in parts]),
            channel=np.concatenate([part.channel for part in parts]),
            sigmas=np.concatenate([part.sigmas for part in parts]),
            value=np.concatenate([part.value for part in parts]),
            expected=np.concatenate([part.expected for part in parts]),
            onset=np.concatenate([part.onset for part in parts]),
            kinds=self.kinds,
        )
