"""Detection: River's detectors on the streams of the Numenta benchmark, each at its own best threshold."""

import gzip
import json
import subprocess
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks._compare.kept import Figures
from benchmarks._compare.peers_at import PEERS_AT, Peer, install, python_of
from homeostat.bench import nab

RIVER = Peer("river", ("river",))
THRESHOLDS = 60


@dataclass(frozen=True, slots=True)
class Scored:
    """A detector's score by NAB's standard profile, and what a sample costs it."""

    name: str
    score: float
    microseconds: float
    note: str


def figures(data: Path) -> Figures:
    install(PEERS_AT, RIVER)
    return {"detectors": [asdict(one) for one in measure(data)]}


def measure(data: Path) -> list[Scored]:
    streams = nab.load(data / "nab")
    ours = nab.measure(data / "nab")
    found = [Scored("homeostat", ours["score"], ours.get("microseconds_per_sample", float("nan")), "one configuration")]
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder) / "scores.json.gz"
        script = Path(__file__).parent / "peers" / "river_scores.py"
        arguments = [str(python_of(PEERS_AT, RIVER)), str(script), str(data / "nab" / "streams.csv.gz"), str(kept)]
        subprocess.run(arguments, check=True)
        with gzip.open(kept, "rt") as file:
            said = json.load(file)
    for name, given in said.items():
        best = _best(streams, [given["scores"][stream.name] for stream in streams])
        found.append(Scored(f"river {name}", best, given["microseconds"], "threshold chosen in hindsight"))
    return found


def _best(streams: list[nab.Stream], scores: list[list[float]]) -> float:
    """The best that one threshold for all streams can do; an alarm is a score that rises above it."""
    pooled = np.concatenate([np.asarray(one) for one in scores])
    grid = np.unique(np.quantile(pooled, 1 - np.geomspace(1e-5, 0.2, THRESHOLDS)))
    return max(nab.score(streams, [_onsets(np.asarray(one), threshold) for one in scores]) for threshold in grid)


def _onsets(scores: "np.ndarray[tuple[int], np.dtype[np.float64]]", threshold: float) -> list[int]:
    above = scores >= threshold
    return [int(at) for at in np.flatnonzero(above & ~np.concatenate(([False], above[:-1])))]
