"""What is remembered of warnings when the bounds of an account are set anew."""

from dataclasses import replace

from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.records.budget import Amount, Budget, BudgetKind, BudgetLimit

TOKENS, USD, SECONDS = BudgetLimit
BOUNDS = Budget(
    project=DEFAULT_PROJECT,
    kind=BudgetKind.AGENT,
    holder="ann",
    tokens_max=100,
    micros_max=1_000,
    seconds_max=10,
    started_at_ms=Millis(0),
)
TOLD = replace(BOUNDS, warned=(USD, TOKENS, SECONDS), warned_at_ms=Millis(9))


def test_each_bound_ends_by_itself() -> None:
    assert BOUNDS.ending(Millis(7_999)) == ()
    assert replace(BOUNDS, spent=Amount(80, 799)).ending(Millis(0)) == (TOKENS,)
    assert replace(BOUNDS, spent=Amount(79, 800)).ending(Millis(8_000)) == (USD, SECONDS)
    assert replace(BOUNDS, tokens_max=None, spent=Amount(800, 0)).ending(Millis(0)) == ()


def test_what_was_said_of_a_bound_holds_until_it_is_another() -> None:
    assert BOUNDS.instead_of(None) == BOUNDS
    assert BOUNDS.instead_of(TOLD) == TOLD
    assert replace(BOUNDS, tokens_max=200).instead_of(TOLD).warned == (USD, SECONDS)
    assert replace(BOUNDS, micros_max=None).instead_of(TOLD).warned == (TOKENS, SECONDS)


def test_a_clock_that_begins_anew_is_warned_of_anew() -> None:
    assert BOUNDS.instead_of(TOLD, clock_anew=True).warned == (USD, TOKENS)
    other = replace(TOLD, warned=(SECONDS,))
    assert BOUNDS.instead_of(other, clock_anew=True) == BOUNDS, "nobody was warned of anything that holds"
