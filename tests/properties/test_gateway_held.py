"""What is refused because others hold it passes once they give it back, and what never will is not told to wait."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from homeostat.core.clock import Millis
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import OUTPUT_TOKENS_LEAST
from homeostat.core.records.budget import ZERO, Amount, Budget, BudgetKind, BudgetLimit
from homeostat.core.records.price import Price, Rate
from homeostat.gateway.budgets import exceeded
from homeostat.gateway.metering import Bound
from homeostat.gateway.refusals import BudgetHeld, refusal_of

NOW = Millis(1_000)
small = st.integers(0, 5_000)
rates = st.just(0) | st.integers(0, 80_000_000)  # what only reads costs nothing to write
prices = st.builds(lambda a, b, c: Price("m", Rate(a, b, a, c)), rates, rates, rates)
bounds = st.builds(
    lambda tokens_in, out, answers, explicit, price: Bound(
        tokens_in, out if explicit else max(out, OUTPUT_TOKENS_LEAST), answers, explicit, price
    ),
    small,
    small,
    st.integers(1, 4),
    st.booleans(),
    prices,
)


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    """An account whose gateways hold no more than is left."""
    tokens_max, micros_max = draw(st.none() | small), draw(st.none() | st.integers(0, 2_000_000))
    spent = Amount(draw(st.integers(0, tokens_max or 0)), draw(st.integers(0, micros_max or 0)))
    held = Amount(
        draw(st.integers(0, (tokens_max or 0) - spent.tokens)), draw(st.integers(0, (micros_max or 0) - spent.micros))
    )
    return Budget(
        project=DEFAULT_PROJECT,
        kind=BudgetKind.AGENT,
        holder="ann",
        tokens_max=tokens_max,
        micros_max=micros_max,
        started_at_ms=NOW,
        spent=spent,
        held=held,
    )


@given(budget=budgets(), bound=bounds)
def test_only_what_would_fit_without_the_others_is_told_to_wait(budget: Budget, bound: Bound) -> None:
    least = bound.tokens_out if bound.explicit else OUTPUT_TOKENS_LEAST
    limit = budget.refuses(bound.of(least), NOW)
    if limit is None:
        return
    fits = replace(budget, held=ZERO).refuses(bound.of(least), NOW) is None
    refusal = exceeded(budget, limit, bound)
    assert isinstance(refusal, BudgetHeld) == fits
    told = refusal_of(refusal)
    assert (told.status, told.should_retry, told.retry_after_seconds) == (402, fits, 1 if fits else None)


@given(budget=budgets())
def test_what_is_unspent_is_what_is_left_and_what_is_held(budget: Budget) -> None:
    assert budget.unspent == replace(budget, held=ZERO).left
    assert budget.unspent.covers(budget.left)


@given(budget=budgets(), bound=bounds)
def test_time_that_is_over_does_not_come_back(budget: Budget, bound: Bound) -> None:
    over = replace(budget, seconds_max=1.0)
    assert not isinstance(exceeded(over, BudgetLimit.SECONDS, bound), BudgetHeld)
