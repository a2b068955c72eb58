"""No sixty seconds hold more than the limit, whoever asks and however time runs."""

from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import RATE_WINDOW_SECONDS
from homeostat.core.records.policy import Action, Policy, PolicyId
from homeostat.gateway.policy import RateLimit, Windows
from homeostat.gateway.rates import RateWindow, Shares
from homeostat.gateway.refusals import Refusal


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


@given(st.integers(1, 10_000), st.integers(1, 12))
def test_shares_add_up_to_the_limit(limit: int, gateways: int) -> None:
    names = [f"gw_{number}" for number in range(gateways)]
    parts: list[int] = []
    for name in names:
        shares = Shares()
        shares.split([other for other in names if other != name], name)
        parts.append(shares.of(limit))
    assert sum(parts) == max(limit, gateways)
    assert max(parts) - min(parts) <= 1


def test_a_large_call_finds_room_in_a_small_share() -> None:
    windows, shares = Windows(), Shares()
    shares.split(["a", "b", "c", "d"], "a")
    made = Policy(
        policy_id=PolicyId("p"),
        project=DEFAULT_PROJECT,
        agent_id=None,
        action=Action.RATE_LIMIT,
        created_at_ms=Millis(0),
        tokens_per_minute=1000,
    )
    limit = RateLimit(made, windows, shares)
    assert isinstance(limit.take(1001, 0.0), Refusal)
    assert not isinstance(limit.take(900, 0.0), Refusal)
    assert isinstance(limit.take(1, 1.0), Refusal)
    assert not isinstance(limit.take(200, 61.0), Refusal)
    assert not isinstance(limit.take(50, 61.0), Refusal)
    assert isinstance(limit.take(1, 62.0), Refusal)
