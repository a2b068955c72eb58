"""Rows are allotted, freed, grown, reset and carried over a restart."""

import numpy as np
import pytest

from homeostat.immune.baseline import Baselines
from homeostat.immune.sentinel import Sentinel

SAMPLE = [900.0, 600.0, 500.0, 100.0, 0.01, 2.0, 0.0, 0.0]


def taught(fleet: Baselines, row: int, samples: int = 50) -> None:
    sentinel = Sentinel(fleet)
    random = np.random.default_rng(row)
    for i in range(samples):
        sentinel.tick([row], [np.array(SAMPLE) * random.lognormal(0, 0.2, 8)], at=60.0 * i)


def test_an_agent_takes_no_more_than_a_kilobyte() -> None:
    assert Baselines().bytes_per_agent <= 1024


def test_rows_survive_growth() -> None:
    fleet = Baselines(capacity=2)
    first = fleet.allot()
    taught(fleet, first)
    before = fleet.export(first)
    rows = [fleet.allot() for _ in range(40)]
    assert sorted({first, *rows}) == list(range(41))
    assert len(fleet) == 41
    assert fleet.export(first) == before


def test_a_freed_row_comes_back_clean() -> None:
    fleet = Baselines()
    row = fleet.allot()
    taught(fleet, row)
    fleet.free(row)
    assert len(fleet) == 0
    assert fleet.allot() == row
    assert fleet.samples(row) == 0


def test_a_restored_row_scores_like_the_one_it_was() -> None:
    fleet, other = Baselines(), Baselines()
    row = fleet.allot()
    taught(fleet, row)
    other.allot()
    copy = other.allot()
    other.restore(copy, fleet.export(row))
    assert other.normals(copy) == fleet.normals(row)
    step = [np.array(SAMPLE) * 3]
    assert Sentinel(other).tick([copy], step, at=0.0).sigma[0] == Sentinel(fleet).tick([row], step, at=0.0).sigma[0]


@pytest.mark.parametrize("state", [b"", b"\x01\x08", b"\x00" * 995])
def test_foreign_state_is_refused(state: bytes) -> None:
    fleet = Baselines()
    with pytest.raises(ValueError, match="another version or shape"):
        fleet.restore(fleet.allot(), state)


def test_a_hard_reset_starts_over() -> None:
    fleet = Baselines()
    rows = np.array([fleet.allot(), fleet.allot()])
    for row in rows:
        taught(fleet, int(row))
    fleet.reset([0])
    assert fleet.ready(rows, 30).tolist() == [False, True]
