"""What every keeper of the gateway's money must do for accounts of runs: their clocks, and what was spent before."""

from dataclasses import replace

from msgspec import structs

from homeostat.core.clock import Millis
from homeostat.core.ids import ProjectId, RunId
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.budget import ZERO, Amount, BudgetLimit, Draw
from homeostat.testing.suites.gateway_store import FAR, NOW, ONE, PROJECT, RUN, Check, budget, call, post


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


CHECKS: tuple[Check, ...] = (
    a_clock_that_stands_takes_no_time,
    an_account_begins_with_what_was_spent_before_it,
    what_a_run_took_is_summed_from_the_log,
)
