"""What one tick over the fleet promises."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from homeostat.immune.baseline import ACCELERATED_TICKS, Baselines
from homeostat.immune.findings import sigma_of
from homeostat.immune.sentinel import Findings, Sentinel, Settings
from homeostat.immune.vitals import GAUGES, Anomaly, Vital

USUAL = np.array([900.0, 600.0, 500.0, 100.0, 0.01, 2.0, 0.0, 0.0])
MINUTE = 60.0


def fleet_of(agents: int) -> tuple[Baselines, np.ndarray, Sentinel]:
    fleet = Baselines()
    rows = np.array([fleet.allot() for _ in range(agents)])
    return fleet, rows, Sentinel(fleet)


def noise(seed: int, ticks: int, agents: int, spread: float = 0.2) -> np.ndarray:
    random = np.random.default_rng(seed)
    return USUAL * random.lognormal(0, spread, (ticks, agents, len(USUAL)))


def teach(sentinel: Sentinel, rows: np.ndarray, samples: np.ndarray) -> list[Findings]:
    return [sentinel.tick(rows, sample, at=MINUTE * i) for i, sample in enumerate(samples)]


@pytest.mark.parametrize("samples", [30, 60, 400])
@pytest.mark.parametrize("vital", [Vital.LATENCY, Vital.TOKENS, Vital.TOKENS_IN, Vital.TOKENS_OUT, Vital.COST])
@pytest.mark.parametrize("spread", [0.0, 0.1, 0.5])
def test_a_hundredfold_step_is_severe_on_its_first_sample(samples: int, vital: Vital, spread: float) -> None:
    _, rows, sentinel = fleet_of(1)
    teach(sentinel, rows, noise(7, samples, 1, spread))
    step = USUAL.copy()
    step[vital] *= 100
    found = sentinel.tick(rows, [step], at=MINUTE * samples)
    assert found.sigma[0] >= 6
    assert [(finding.vital, finding.kind, finding.onset) for finding in found] == [(vital, GAUGES[vital].kind, True)]


def test_nothing_is_reported_before_min_samples() -> None:
    _, rows, sentinel = fleet_of(1)
    samples = noise(1, 30, 1)
    samples[10:] *= 1000
    assert not any(len(found) for found in teach(sentinel, rows, samples))


def test_sigma_means_the_same_everywhere() -> None:
    tails = np.array([1e-2, 1e-3, 1e-5, 9.87e-10])
    assert sigma_of(-np.log(tails).astype(np.float32)) == pytest.approx([2.33, 3.09, 4.26, 6.0], abs=0.08)


def test_errors_that_last_are_found_and_a_single_one_is_not() -> None:
    _, rows, sentinel = fleet_of(1)
    teach(sentinel, rows, noise(3, 300, 1))
    failing = USUAL.copy()
    failing[Vital.ERROR_RATE] = 1.0
    first = sentinel.tick(rows, [failing], at=0.0)
    assert first.sigma[0] < 6
    found = [finding for i in range(1, 12) for finding in sentinel.tick(rows, [failing], at=MINUTE * i)]
    assert Anomaly.ERROR_SPIKE in {finding.kind for finding in found}


def test_a_lasting_doubling_is_found_as_drift_or_spike_within_thirty_samples() -> None:
    _, rows, sentinel = fleet_of(1)
    samples = noise(5, 1230, 1, spread=0.8)
    samples[1200:] *= 2
    found = teach(sentinel, rows, samples)
    assert any(len(f) for f in found[1200:])


@pytest.mark.parametrize("units", [0.5, 1.1, 1.6, 5.0])
def test_a_steady_stream_does_not_look_doubled_however_small_its_values_are(units: float) -> None:
    """Cheap models cost about as much per call as the finest step that is told apart."""
    agents, ticks = 10, 900
    _, rows, sentinel = fleet_of(agents)
    samples = noise(5, ticks, agents)
    cost = GAUGES[Vital.COST].unit * units
    samples[:, :, Vital.COST] = cost * np.random.default_rng(6).lognormal(0, 0.5, (ticks, agents))
    found = [one for findings in teach(sentinel, rows, samples) for one in findings]
    assert len(found) <= agents * ticks / 1000


def test_a_frozen_stream_is_stuck_and_a_constant_one_is_not() -> None:
    _, rows, sentinel = fleet_of(2)
    samples = noise(6, 260, 2, spread=0.3)
    samples[:, 1] = USUAL
    samples[200:, 0] = samples[200, 0]
    found = [finding for f in teach(sentinel, rows, samples)[200:] for finding in f]
    assert {finding.row for finding in found} == {0}
    assert Anomaly.STUCK in {finding.kind for finding in found}


def test_one_onset_opens_an_episode_and_the_fault_stays_visible() -> None:
    _, rows, sentinel = fleet_of(1)
    teach(sentinel, rows, noise(8, 200, 1))
    found = [sentinel.tick(rows, [USUAL * 50], at=MINUTE * i) for i in range(40)]
    assert found[0].onset.any()
    assert not any(f.onset.any() for f in found[1:])
    assert all(f.sigma[0] > 6 for f in found)


def test_a_baseline_absorbs_no_fault_while_it_lasts() -> None:
    fleet, rows, sentinel = fleet_of(1)
    teach(sentinel, rows, noise(9, 200, 1))
    before = fleet.normals(0)
    for i in range(45):
        sentinel.tick(rows, [USUAL * 30], at=MINUTE * i)
    for then, now in zip(before, fleet.normals(0), strict=True):
        assert (now.samples, now.mean, now.deviation) == (then.samples, then.mean, then.deviation)
        assert now.highest <= then.highest


def test_a_fault_in_one_vital_raises_no_record_of_another() -> None:
    fleet, rows, sentinel = fleet_of(1)
    teach(sentinel, rows, noise(14, 400, 1))
    before = fleet.normals(0)[Vital.TOKENS].highest
    sample = USUAL * 100
    sample[Vital.TOKENS] = before * 1.04
    sentinel.tick(rows, [sample], at=0.0)
    assert fleet.normals(0)[Vital.TOKENS].highest <= before


def test_a_severe_fault_that_comes_back_is_severe_again() -> None:
    _, rows, sentinel = fleet_of(1)
    samples = noise(10, 400, 1)
    teach(sentinel, rows, samples)
    sentinel.tick(rows, [USUAL * 100], at=0.0)
    teach(sentinel, rows, samples[:120])
    assert sentinel.tick(rows, [USUAL * 100], at=0.0).sigma[0] >= 6


def test_rows_that_may_not_learn_are_scored_and_stay_as_they_are() -> None:
    fleet, rows, sentinel = fleet_of(2)
    teach(sentinel, rows, noise(11, 100, 2))
    before = [fleet.normals(row) for row in (0, 1)]
    found = sentinel.tick(rows, [USUAL * 100, USUAL * 1.1], at=0.0, learn=[False, True])
    assert found.sigma[0] >= 6
    assert fleet.normals(0) == before[0]
    assert fleet.normals(1) != before[1]


def test_a_record_that_nothing_comes_near_fades() -> None:
    fleet = Baselines()
    rows = np.array([fleet.allot()])
    sentinel = Sentinel(fleet, Settings(envelope_decay=0.01))
    once = noise(5, 400, 1)
    once[3] *= 50  # before it is known what is normal
    teach(sentinel, rows, once[:20])
    latency = Vital.LATENCY
    before = fleet.normals(0)[latency].highest
    assert before > 20 * USUAL[latency]
    teach(sentinel, rows, once[20:])
    assert fleet.normals(0)[latency].highest < before / 10


def test_acceleration_follows_a_new_normal_and_ends() -> None:
    fleet, rows, sentinel = fleet_of(2)
    teach(sentinel, rows, noise(12, 600, 2, spread=0.1))
    fleet.accelerate([0])
    teach(sentinel, rows, 0.5 * noise(21, ACCELERATED_TICKS, 2, spread=0.1))
    latency = [fleet.normals(row)[Vital.LATENCY].mean for row in (0, 1)]
    assert latency[0] < 0.6 * USUAL[Vital.LATENCY] < latency[1]
    assert fleet.column("accelerated")[0] == 0


wild = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=32),
    st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, -0.0, 3e38, 1e-38]),
)


@examples(max_examples=40)
@given(
    st.lists(st.lists(wild, min_size=8, max_size=8), min_size=1, max_size=60),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
def test_wild_samples_never_break_a_tick_or_its_state(samples: list[list[float]], at: float) -> None:
    fleet, rows, sentinel = fleet_of(1)
    with np.errstate(all="raise", under="ignore"):
        for sample in samples:
            found = sentinel.tick(rows, [sample], at=at)
            assert np.isfinite(found.sigma).all()
            assert np.isfinite(found.value).all()
    assert all(np.isfinite(fleet.column(name)).all() for name in ("mean", "variance", "level", "spike_high"))


@examples(max_examples=25)
@given(st.lists(st.sampled_from([math.nan, math.inf, -math.inf, -1.0, -1e30, 1e30]), min_size=8, max_size=8))
def test_broken_reports_never_alarm_and_teach_nothing(broken: list[float]) -> None:
    fleet, rows, sentinel = fleet_of(1)
    teach(sentinel, rows, noise(13, 60, 1))
    before = fleet.normals(0)
    for _ in range(20):
        assert len(sentinel.tick(rows, [broken], at=0.0)) == 0
    assert fleet.normals(0) == before


@examples(max_examples=15)
@given(st.integers(0, 2**32 - 1), st.permutations(range(6)))
def test_agents_do_not_disturb_each_other_in_whatever_order_they_come(seed: int, order: list[int]) -> None:
    samples = noise(seed, 80, 6, spread=0.6)
    samples[60:, 2] *= 4
    together, rows, sentinel = fleet_of(6)
    shuffled, _, other = fleet_of(6)
    alone, single, lonely = fleet_of(1)
    for i, sample in enumerate(samples):
        found = sentinel.tick(rows, sample, at=MINUTE * i)
        again = other.tick(order, sample[order], at=MINUTE * i)
        one = lonely.tick(single, sample[2:3], at=MINUTE * i)
        assert again.sigma.tolist() == found.sigma[order].tolist()
        assert one.sigma[0] == found.sigma[2]
    assert [shuffled.export(row) for row in range(6)] == [together.export(row) for row in range(6)]
    assert alone.export(0) == together.export(2)


def test_a_row_comes_once() -> None:
    _, _, sentinel = fleet_of(2)
    with pytest.raises(AssertionError):
        sentinel.tick([1, 1], [USUAL, USUAL], at=0.0)


def test_an_empty_tick_is_a_tick() -> None:
    _, _, sentinel = fleet_of(1)
    assert len(sentinel.tick([], np.zeros((0, 8)), at=0.0)) == 0
