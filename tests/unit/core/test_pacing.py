"""No sixty seconds hold more than the limit, whoever asks and however time runs."""

from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.ids import DEFAULT_PROJECT, AgentId
from homeostat.core.limits import RATE_KEPT_SECONDS, RATE_PORTION_SECONDS, RATE_WINDOW_SECONDS
from homeostat.core.pacing import Window
from homeostat.core.records.policy import PolicyId
from homeostat.core.records.rate import UNLIMITED, Load, RateDraw, RateDrawn

KEY = (DEFAULT_PROJECT, PolicyId("p"), AgentId("ann"))


def draw(window: Window, amount: int, limit: int, at: float, *, wish: int = 0) -> RateDrawn:
    need, most = Load(amount, 0), Load(limit, UNLIMITED)
    return window.draw(RateDraw(KEY, need, Load(max(wish, amount), 0), most), int(at))


@given(
    limit=st.integers(1, 20),
    steps=st.lists(st.tuples(st.floats(0, 30), st.integers(1, 6), st.floats(0, RATE_PORTION_SECONDS)), max_size=80),
)
def test_always_no_minute_holds_more_than_the_limit(limit: int, steps: list[tuple[float, int, float]]) -> None:
    window = Window()
    now = 1000.0
    used: list[tuple[float, int]] = []
    for wait, amount, delay in steps:
        now += wait
        if draw(window, amount, limit, now).granted is not None:
            used.append((now + delay, amount))  # a portion is used within its time
        window = Window(window.rows)
        for end, _ in used:
            assert sum(size for at, size in used if end - RATE_WINDOW_SECONDS < at <= end) <= limit


def test_room_comes_back_when_its_last_use_is_a_minute_old() -> None:
    window = Window()
    assert draw(window, 2, 2, 100.5).granted == Load(2, 0)
    assert draw(window, 1, 2, 100 + RATE_KEPT_SECONDS - 0.1).granted is None
    assert draw(window, 2, 2, 100 + RATE_KEPT_SECONDS).granted is not None


def test_a_correction_frees_what_was_not_used() -> None:
    window = Window()
    draw(window, 100, 100, 10)
    window.give_back(10, Load(80, 0))
    assert window.used.requests == 20
    window.give_back(10, Load(-5, 0))
    assert window.used.requests == 25
    window.give_back(10, Load(99, 0))
    window.give_back(10, Load(1, 0))
    assert (window.used.requests, window.rows) == (0, [])


def test_it_says_when_there_will_be_room() -> None:
    window = Window()
    draw(window, 1, 3, 10)
    draw(window, 2, 3, 40)
    assert draw(window, 1, 3, 50).retry_seconds == 10 + RATE_KEPT_SECONDS - 50
    assert draw(window, 3, 3, 50).retry_seconds == 40 + RATE_KEPT_SECONDS - 50
    assert draw(window, 4, 3, 50).retry_seconds == RATE_WINDOW_SECONDS


def test_others_find_something() -> None:
    window = Window()
    assert draw(window, 1, 65, 10, wish=50).granted == Load(1 + 64 // 32, 0)
    assert draw(window, 1, 65, 10, wish=2).granted == Load(2, 0)
    assert draw(window, 0, 33, 10, wish=9).granted == Load(0, 0)


def test_a_clock_that_was_set_back_closes_no_door_for_long() -> None:
    window = Window()
    draw(window, 2, 2, 10_000)
    assert draw(window, 1, 2, 10_000 - 30).granted is None
    assert draw(window, 1, 2, 5_000).granted is not None
