"""No sixty seconds hold more than the limit, whoever asks and however time runs."""

from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.limits import RATE_WINDOW_SECONDS
from homeostat.gateway.rates import RateWindow


@given(
    limit=st.integers(1, 20),
    steps=st.lists(st.tuples(st.floats(0, 30), st.integers(1, 6)), max_size=80),
)
def test_always_no_minute_holds_more_than_the_limit(limit: int, steps: list[tuple[float, int]]) -> None:
    window = RateWindow()
    now = 1000.0
    taken: list[tuple[float, int]] = []
    for wait, amount in steps:
        now += wait
        if window.take(amount, limit, now) is not None:
            taken.append((now, amount))
        within = sum(size for at, size in taken if now - at < RATE_WINDOW_SECONDS - 1)
        assert within <= limit
        assert window.used == sum(size for at, size in taken if int(now) - int(at) < RATE_WINDOW_SECONDS)


def test_room_comes_back_after_a_minute_and_not_before() -> None:
    window = RateWindow()
    assert window.take(2, 2, 100.5) is not None
    assert window.take(1, 2, 159.9) is None
    assert window.take(2, 2, 160.0) is not None


def test_a_correction_frees_what_was_not_used() -> None:
    window = RateWindow()
    second = window.take(100, 100, 10.0)
    assert second is not None
    window.correct(second, -80)
    assert window.room(100, 11.0) == 80
    window.correct(second, 0)
    window.advance(100.0)
    window.correct(second, -20)
    assert window.used == 0


def test_it_says_when_there_will_be_room() -> None:
    window = RateWindow()
    window.take(1, 3, 10.0)
    window.take(2, 3, 40.0)
    assert window.seconds_until(1, 3, 50.0) == 20
    assert window.seconds_until(3, 3, 50.0) == 50
    assert window.seconds_until(4, 3, 50.0) == RATE_WINDOW_SECONDS
