"""The NAB scorer on a stream small enough to reckon by hand."""

import pytest

from homeostat.bench.nab import Stream, gain, score

STREAM = Stream(name="s", times=[60.0 * i for i in range(1000)], values=[0.0] * 1000, windows=[(400, 499), (700, 799)])


@pytest.mark.parametrize(
    ("alarms", "expected"),
    [
        ([], 0.0),
        ([400, 700], 100.0),
        ([400], 50.0),
        ([400, 420, 450], 50.0),  # only the earliest hit in a window counts
        ([100], 0.0),  # on probation
        ([300], -100 * 0.11 / 4),
        ([0, 149], 0.0),
    ],
)
def test_scores(alarms: list[int], expected: float) -> None:
    assert score([STREAM], [alarms]) == pytest.approx(expected)


def test_a_later_hit_earns_less_and_a_near_miss_costs_less() -> None:
    assert gain(STREAM, [400]) > gain(STREAM, [460]) > gain(STREAM, [499]) > 1
    assert 0 > gain(STREAM, [505]) > gain(STREAM, [540]) > gain(STREAM, [650])
