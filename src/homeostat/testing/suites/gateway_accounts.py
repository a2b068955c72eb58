"""What every keeper of the gateway's money must do for accounts: clocks, warnings, and what was spent before."""

from dataclasses import replace

from msgspec import structs

from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.budget import ZERO, Amount, BudgetLimit, Draw, Limits, Spend, Warned
from homeostat.testing.suites.gateway_store import ANN, FAR, LATER, NOW, ONE, PROJECT, RUN, Check, budget, call, post


async def a_clock_that_stands_takes_no_time(store: GatewayStore) -> None:
    started, need = replace(budget(RUN, tokens=None), seconds_max=10), Amount(1, 0)
    await store.enter(ONE, FAR)

    async def refused(number: int, seconds: float) -> BudgetLimit | None:
        now = Millis(NOW + int(seconds * 1000))
        return (await post(store, number, now_ms=now, draws=(Draw(RUN, need, need),))).drawn[0].refused_by

    await store.put_budget(started)
    assert [await refused(1, 9.9), await refused(2, 10)] == [None, BudgetLimit.SECONDS]
    standing = await store.put_budget(replace(started, stopped_at_ms=Millis(NOW + 4_000)))
    assert await store.budget(RUN) == standing == (await store.budgets(PROJECT, after=None, limit=1))[0]
    assert (standing.stopped_at_ms, standing.ends_at_ms) == (NOW + 4_000, None)
    assert await refused(3, 3_600) is None
    await store.put_budget(replace(started, started_at_ms=Millis(NOW + 3_596_000)))
    assert [await refused(4, 3_605.9), await refused(5, 3_606)] == [None, BudgetLimit.SECONDS]
    await store.put_budget(replace(started, stopped_at_ms=Millis(NOW + 10_000)))
    assert await refused(6, 3_600) is BudgetLimit.SECONDS  # what is used up stays so


async def an_account_begins_with_what_was_spent_before_it(store: GatewayStore) -> None:
    made = await store.put_budget(replace(budget(), spent=Amount(70, 9)))
    assert (made.spent, made.warned_at_ms) == (Amount(70, 9), None)
    again = await store.put_budget(replace(budget(tokens=200), spent=Amount(5, 5), warned_at_ms=NOW))
    assert (again.tokens_max, again.spent, again.warned_at_ms) == (200, Amount(70, 9), NOW)


async def what_a_run_took_is_summed_from_the_log(store: GatewayStore) -> None:
    await store.enter(ONE, FAR)
    made = [call(number) for number in range(1, 8)]  # the odd ones are of the run
    unpriced = structs.replace(call(9), cost_micros=None)
    await post(store, 1, calls=(*made, unpriced))
    run_id = RunId("run")
    assert await store.spent_for(PROJECT, run_id, after="") == Amount(50 + 25, 16)
    assert await store.spent_for(PROJECT, run_id, after=made[4].call_id) == Amount(20 + 16, 7)
    assert await store.spent_for(PROJECT, run_id, after=unpriced.call_id) == ZERO
    assert await store.spent_for(PROJECT, RunId("other"), after="") == ZERO
    assert await store.spent_for(ProjectId("other"), run_id, after="") == ZERO


async def each_bound_is_warned_of_once(store: GatewayStore) -> None:
    await store.enter(ONE, LATER)

    async def told(number: int, tokens: int = 0, micros: int = 0, after_ms: int = 0) -> list[Limits]:
        spends = (Spend(RUN, Amount(tokens, micros), ZERO),)
        posted = await post(store, number, now_ms=Millis(NOW + after_ms), spends=spends)
        assert all(one.budget.warned_at_ms == NOW + after_ms for one in posted.warned)
        return [one.limits for one in posted.warned]

    tokens, usd, seconds = BudgetLimit
    made = replace(budget(RUN), micros_max=1_000, seconds_max=10)
    await store.put_budget(made)
    assert [await told(1, 79), await told(2, 1), await told(3, 1)] == [[], [(tokens,)], []]
    assert [await told(4, 0, 800), await told(5, 0, 1), await told(6, 1, 1)] == [[(usd,)], [], []]
    assert [await told(7, 1, 1, 7_999), await told(8, 1, 1, 8_000), await told(9, 1, 1, 9_999)] == [
        [],
        [(seconds,)],
        [],
    ]
    known = await store.budget(RUN)
    assert known is not None
    assert (known.warned, known.warned_at_ms) == ((tokens, usd, seconds), NOW + 8_000)
    assert known == (await store.budgets(PROJECT, after=None, limit=1))[0]
    raised = await store.put_budget(replace(made, tokens_max=200).instead_of(known))
    assert (raised.warned, raised.warned_at_ms) == ((usd, seconds), NOW + 8_000)
    assert [await told(10, 60), await told(11, 30), await told(12, 1)] == [[], [(tokens,)], []], "it was raised"
    await store.put_budget(replace(budget(RUN), tokens_max=10, micros_max=10, seconds_max=10))
    assert await told(13, 1) == [(tokens, usd)], "two at once are told of together"


async def one_is_warned_of_on_request(store: GatewayStore) -> None:
    """A call that is refused is the first word of a bound that would have been passed."""
    tokens, usd, _ = BudgetLimit
    await store.enter(ONE, LATER)
    await store.put_budget(budget())
    asked = ((ANN, tokens), (ANN, usd), (RUN, tokens))
    posted = [(await post(store, number, warnings=asked)).warned for number in (1, 2)]
    known = await store.budget(ANN)
    assert known is not None
    assert posted == [(Warned(known, (tokens,)),), ()], "nobody is warned of a bound that is none"
    assert (known.warned, known.warned_at_ms) == ((tokens,), NOW)


CHECKS: tuple[Check, ...] = (
    each_bound_is_warned_of_once,
    one_is_warned_of_on_request,
    a_clock_that_stands_takes_no_time,
    an_account_begins_with_what_was_spent_before_it,
    what_a_run_took_is_summed_from_the_log,
)
