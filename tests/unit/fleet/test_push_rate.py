"""Which interval an agent has, and which intervals there can be."""

import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.errors import IntervalInvalid
from homeostat.core.records.fleet import IntervalScope, PushInterval
from homeostat.fleet.push_rate import checked, resolve
from homeostat.testing.suites.status import admission

AGENT, TAG, TYPE, DEFAULT = IntervalScope
ENTRY = admission("a").registration  # of type inference, tagged gpu and primary


@pytest.mark.parametrize(
    ("settings", "interval"),
    [
        ({}, PushInterval(30.0, "default")),
        ({(DEFAULT, ""): 7.0}, PushInterval(7.0, "default")),
        ({(DEFAULT, ""): 7.0, (TYPE, "inference"): 10.0}, PushInterval(10.0, "type:inference")),
        ({(TYPE, "inference"): 1.0, (TAG, "gpu"): 5.0}, PushInterval(5.0, "tag:gpu")),
        ({(TAG, "gpu"): 5.0, (TAG, "primary"): 2.0}, PushInterval(2.0, "tag:primary")),
        ({(TAG, "gpu"): 2.0, (TAG, "primary"): 2.0}, PushInterval(2.0, "tag:gpu")),
        ({(TAG, "gpu"): 0.5, (AGENT, "a"): 60.0}, PushInterval(60.0, "agent")),
        ({(TAG, "cpu"): 1.0, (TYPE, "cli"): 1.0, (AGENT, "b"): 1.0}, PushInterval(30.0, "default")),
    ],
)
def test_the_most_specific_setting_wins(
    settings: Mapping[tuple[IntervalScope, str], float], interval: PushInterval
) -> None:
    assert resolve(settings, ENTRY) == interval


@given(st.floats(min_value=0.1, max_value=3600.0))
def test_an_interval_within_bounds_is_taken(seconds: float) -> None:
    assert checked(seconds) == seconds


@given(st.floats().filter(lambda seconds: not 0.1 <= seconds <= 3600.0))
def test_every_other_interval_is_refused(seconds: float) -> None:
    with pytest.raises(IntervalInvalid) as refused:
        checked(seconds)
    assert refused.value.http_status == 422


@pytest.mark.parametrize("seconds", [0, -5, 1e-9, 0.0999, 3600.1, math.inf, -math.inf, math.nan])
def test_the_absurd_is_refused(seconds: float) -> None:
    with pytest.raises(IntervalInvalid):
        checked(seconds)
