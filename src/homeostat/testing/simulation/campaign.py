"""Many seeds at once: on every core, with one verdict."""

from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from homeostat.testing.simulation.interest import INTERESTING
from homeostat.testing.simulation.run import Outcome, simulate

PROCESSES = 2
CHUNK_SEEDS = 10


@dataclass(slots=True)
class Verdict:
    """What a run over many seeds has shown."""

    seeds: int = 0
    commits: int = 0
    failures: list[Outcome] = field(default_factory=list[Outcome])
    counts: Counter[str] = field(default_factory=Counter[str])

    def add(self, outcome: Outcome) -> None:
        self.seeds += 1
        self.commits += outcome.commits
        self.counts.update(outcome.counts)
        if outcome.failure is not None:
            self.failures.append(outcome)

    @property
    def unseen(self) -> list[str]:
        """Interesting things that never happened."""
        return [name for name in INTERESTING if not self.counts[name]]

    @property
    def ok(self) -> bool:
        return not self.failures and not self.unseen


def run(seeds: Iterable[int], *, processes: int = PROCESSES) -> Verdict:
    """Simulate every seed; the order in which they finish changes nothing."""
    verdict = Verdict()
    for outcome in _outcomes(list(seeds), processes):
        verdict.add(outcome)
    return verdict


def _outcomes(seeds: list[int], processes: int) -> Iterator[Outcome]:
    if processes == 1:
        yield from map(simulate, seeds)
        return
    with ProcessPoolExecutor(processes) as pool:
        yield from pool.map(simulate, seeds, chunksize=CHUNK_SEEDS)
