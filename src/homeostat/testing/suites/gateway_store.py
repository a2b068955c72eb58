"""What every keeper of the gateway's rules, money and calls must do."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from homeostat.core.clock import Millis
from homeostat.core.ids import AgentId, ProjectId, RunId, Scope, scope_floor
from homeostat.core.limits import RATE_KEPT_SECONDS
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.budget import (
    ZERO,
    Amount,
    Budget,
    BudgetKey,
    BudgetKind,
    BudgetLimit,
    Draw,
    Flight,
    GatewayId,
    Posted,
    Posting,
    Spend,
)
from homeostat.core.records.call import Api, Call, CallFilter, CallId, Outcome, Usage, call_of
from homeostat.core.records.policy import Action, Policy, PolicyFilter, PolicyId, PolicyOrigin
from homeostat.core.records.rate import Load, RateDraw, RateKey, RateReturn

Check = Callable[[GatewayStore], Awaitable[None]]

PROJECT = ProjectId("default")
NOW = Millis(1_000_000)
LATER = Millis(2_000_000)
FAR = Millis(9_000_000)
ONE = GatewayId("gw_1")
TWO = GatewayId("gw_2")
ANN: BudgetKey = (PROJECT, BudgetKind.AGENT, "ann")
RATE: RateKey = (PROJECT, PolicyId("p"), AgentId("ann"))
MOST = Load(5, 100)
RUN: BudgetKey = (PROJECT, BudgetKind.RUN, "run")


def call(number: int, *, agent: str = "ann", at: Millis = NOW, outcome: Outcome = Outcome.ANSWERED) -> Call:
    return Call(
        call_id=call_of(Scope(scope_floor(at)[:-6] + f"{number:06x}")),
        project=PROJECT,
        agent_id=AgentId(agent),
        run_id=RunId("run") if number % 2 else None,
        upstream="openai",
        api=Api.OPENAI_CHAT,
        path="/openai/v1/chat/completions",
        model=f"m-{number % 3}",
        outcome=outcome,
        status=200,
        started_at_ms=at,
        usage=Usage(10, number),
        cost_micros=number,
    )


def budget(key: BudgetKey = ANN, *, tokens: int | None = 100, micros: int | None = None) -> Budget:
    return Budget(project=key[0], kind=key[1], holder=key[2], tokens_max=tokens, micros_max=micros, started_at_ms=NOW)


async def post(store: GatewayStore, number: int, gateway: GatewayId = ONE, **parts: object) -> Posted:
    posting = Posting(gateway_id=gateway, number=number, now_ms=NOW, expires_at_ms=LATER, seen_version=0)
    return await store.post(replace(posting, **parts))


async def draw(store: GatewayStore, number: int, tokens: int, gateway: GatewayId = ONE) -> Amount | None:
    need = Amount(tokens, 0)
    return (await post(store, number, gateway, draws=(Draw(ANN, need, need),))).drawn[0].granted


async def policies_are_kept_under_a_version_that_grows(store: GatewayStore) -> None:
    policy = Policy(
        policy_id=PolicyId("p"),
        project=PROJECT,
        agent_id=AgentId("ann"),
        action=Action.TOOL_FILTER,
        origin=PolicyOrigin.IMMUNE,
        reason="because",
        created_at_ms=NOW,
        expires_at_ms=LATER,
        allow=("a*",),
        deny=("b",),
        refuse=True,
    )
    first = await store.version()
    second = await store.put_policy(policy)
    assert await store.policies() == (second, [policy])
    changed = replace(policy, agent_id=None, action=Action.TOKEN_CAP, allow=(), deny=(), max_tokens=7, refuse=False)
    third = await store.put_policy(changed)
    assert await store.policies() == (third, [changed])
    fourth = await store.drop_policy(PROJECT, PolicyId("p"))
    assert fourth is not None
    assert first < second < third < fourth
    assert await store.policies() == (fourth, [])
    assert await store.drop_policy(PROJECT, PolicyId("p")) is None
    assert await store.version() == fourth


async def policies_that_fit_go_together(store: GatewayStore) -> None:
    async def put(name: str, agent: str | None, origin: PolicyOrigin, action: Action = Action.BLOCK) -> None:
        agent_id = None if agent is None else AgentId(agent)
        await store.put_policy(
            Policy(
                policy_id=PolicyId(name),
                project=PROJECT,
                agent_id=agent_id,
                action=action,
                origin=origin,
                created_at_ms=NOW,
            )
        )

    await put("a", "ann", PolicyOrigin.OPERATOR)
    await put("b", "ann", PolicyOrigin.IMMUNE)
    await put("c", "bob", PolicyOrigin.IMMUNE, Action.DRAIN)
    await put("d", None, PolicyOrigin.IMMUNE)
    await put("e", "bob", PolicyOrigin.IMMUNE)
    version = await store.version()
    nobody = PolicyFilter(project=PROJECT, agent_id=AgentId("cid"))
    assert await store.drop_policies(nobody) == (None, [])
    assert await store.drop_policies(replace(nobody, project=ProjectId("other"), agent_id=None)) == (None, [])
    assert await store.version() == version
    ann = PolicyFilter(project=PROJECT, agent_id=AgentId("ann"))
    after, dropped = await store.drop_policies(replace(ann, origin=PolicyOrigin.IMMUNE))
    assert (after, dropped) == (await store.version(), [PolicyId("b")])
    assert await store.version() > version
    drains = PolicyFilter(project=PROJECT, action=Action.DRAIN)
    assert (await store.drop_policies(drains))[1] == [PolicyId("c")]
    immune = PolicyFilter(project=PROJECT, origin=PolicyOrigin.IMMUNE)
    assert (await store.drop_policies(immune))[1] == [PolicyId("d"), PolicyId("e")]
    assert [policy.policy_id for policy in (await store.policies())[1]] == [PolicyId("a")]


async def bounds_that_were_lowered_allow_what_was_used_before(store: GatewayStore) -> None:
    await store.put_budget(budget())
    await store.enter(ONE, LATER)
    assert await draw(store, 1, 40) == Amount(40, 0)
    assert await store.ceiling(ANN) == (100, None), "nothing was used, and there are no bounds in dollars"
    await store.put_budget(budget(tokens=10))
    assert await store.ceiling(ANN) == (40, None)
    await post(store, 2, spends=(Spend(ANN, Amount(30, 9), Amount(40, 0)),))
    await store.put_budget(budget(tokens=20, micros=5))
    assert await store.ceiling(ANN) == (30, None), "for calls under way nothing was held in dollars"
    await store.put_budget(budget(tokens=200, micros=5))
    assert await store.ceiling(ANN) == (200, 9)
    assert await store.ceiling(RUN) == (None, None), "there is no such account"


async def a_budget_keeps_what_was_spent_when_its_bounds_change(store: GatewayStore) -> None:
    version = await store.version()
    await store.put_budget(budget())
    assert await store.version() > version
    await store.enter(ONE, LATER)
    assert await draw(store, 1, 40) == Amount(40, 0)
    await post(store, 2, spends=(Spend(ANN, Amount(30, 9), Amount(40, 0)),))
    raised = await store.put_budget(budget(tokens=200))
    assert (raised.tokens_max, raised.spent, raised.held) == (200, Amount(30, 9), ZERO)
    assert await store.budget(ANN) == raised
    await store.put_budget(budget(RUN, tokens=None, micros=5))
    listed = await store.budgets(PROJECT, after=None, limit=1)
    assert [one.key for one in listed] == [ANN]
    assert [one.key for one in await store.budgets(PROJECT, after=ANN, limit=9)] == [RUN]
    assert await store.drop_budget(RUN)
    assert not await store.drop_budget(RUN)
    assert await store.budget(RUN) is None


async def what_is_drawn_is_held_and_nobody_elses(store: GatewayStore) -> None:
    await store.put_budget(budget())
    for gateway in (ONE, TWO):
        await store.enter(gateway, LATER)
    assert await draw(store, 1, 60) == Amount(60, 0)
    refused = await post(store, 1, TWO, draws=(Draw(ANN, Amount(41, 0), Amount(41, 0)),))
    assert refused.drawn[0].granted is None
    assert refused.drawn[0].refused_by is BudgetLimit.TOKENS
    assert await draw(store, 2, 40, TWO) == Amount(40, 0)
    assert await store.holds(ONE) == {ANN: Amount(60, 0)}
    await post(store, 2, spends=(Spend(ANN, Amount(10, 0), Amount(60, 0)),))
    assert await store.holds(ONE) == {}
    account = await store.budget(ANN)
    assert account is not None
    assert (account.spent, account.held) == (Amount(10, 0), Amount(40, 0))
    await store.leave(TWO)
    assert (await store.budget(ANN)) == replace(account, held=ZERO)
    absent = await post(store, 3, draws=(Draw(RUN, ZERO, ZERO),))
    assert absent.drawn[0].budget is None


async def many_who_draw_at_once_never_pass_the_bound(store: GatewayStore) -> None:
    await store.put_budget(budget())
    gateways = [GatewayId(f"gw_{number}") for number in range(8)]
    for gateway in gateways:
        await store.enter(gateway, LATER)
    granted = 0
    for number in range(1, 6):
        drawn = await asyncio.gather(*(draw(store, number, 7, gateway) for gateway in gateways))
        granted += sum(amount.tokens for amount in drawn if amount is not None)
        account = await store.budget(ANN)
        assert account is not None
        held = [await store.holds(gateway) for gateway in gateways]
        assert account.held.tokens == sum(hold[ANN].tokens for hold in held if hold) == granted
    assert granted == 98


async def a_posting_that_is_repeated_changes_nothing(store: GatewayStore) -> None:
    await store.put_budget(budget())
    await store.enter(ONE, LATER)
    spend = (Spend(ANN, Amount(30, 0), ZERO),)
    assert not (await post(store, 1, spends=spend, calls=(call(1),))).repeated
    assert (await post(store, 1, spends=spend, calls=(call(2),))).repeated
    account = await store.budget(ANN)
    assert account is not None
    assert account.spent == Amount(30, 0)
    assert await store.calls(CallFilter(project=PROJECT), 9) == [call(1)]


def pace(requests: int, tokens: int = 0, *, most: Load = MOST) -> RateDraw:
    need = Load(requests, tokens)
    return RateDraw(RATE, need, need, most)


async def room_is_counted_by_the_second_for_all_gateways(store: GatewayStore) -> None:
    for gateway in (ONE, TWO):
        await store.enter(gateway, LATER)
    first = await post(store, 1, rate_draws=(pace(3, 40), pace(1, 20)))
    assert [drawn.granted for drawn in first.paced] == [Load(3, 40), Load(1, 20)]
    assert first.paced[0].second == NOW // 1000
    refused = (await post(store, 1, TWO, rate_draws=(pace(2), pace(1)))).paced
    assert [drawn.granted for drawn in refused] == [None, Load(1, 0)]
    assert refused[0].left == Load(1, 40)
    assert 0 < refused[0].retry_seconds <= 60
    back = RateReturn(RATE, NOW // 1000, Load(2, 10))
    assert (await post(store, 2, rate_returns=(back,), rate_draws=(pace(2, 50),))).paced[0].granted == Load(2, 50)
    assert (await post(store, 2, rate_returns=(back,), rate_draws=(pace(2, 50),))).paced == ()
    assert (await post(store, 2, TWO, rate_draws=(pace(1),))).paced[0].granted is None
    soon = Millis(NOW + RATE_KEPT_SECONDS * 1000)
    assert (await post(store, 3, TWO, now_ms=soon, rate_draws=(pace(5, 100),))).paced[0].granted == Load(5, 100)
    assert await store.expire_rates(soon, 9) == 0
    assert await store.expire_rates(Millis(soon + 1), 9) == 1
    assert await store.expire_rates(Millis(soon + 1), 9) == 0
    assert (await post(store, 4, TWO, now_ms=soon, rate_draws=(pace(5),))).paced[0].granted == Load(5, 0)


async def many_who_pace_at_once_never_pass_the_limit(store: GatewayStore) -> None:
    gateways = [GatewayId(f"gw_{number}") for number in range(8)]
    for gateway in gateways:
        await store.enter(gateway, LATER)
    granted = 0
    for number in range(1, 4):
        posted = await asyncio.gather(
            *(post(store, number, gateway, rate_draws=(pace(3, most=Load(40, 0)),)) for gateway in gateways)
        )
        granted += sum(one.paced[0].granted is not None for one in posted)
    assert granted == 40 // 3


async def a_lease_from_a_clock_that_was_wrong_ends(store: GatewayStore) -> None:
    """A gateway that died a day ahead of everybody would else hold its part of a budget for a day."""
    await store.put_budget(budget())
    await store.enter(ONE, Millis(FAR + 1))
    await store.enter(TWO, FAR)
    need = Amount(60, 0)
    assert (await post(store, 1, draws=(Draw(ANN, need, need),), expires_at_ms=Millis(FAR + 1))).drawn[0].granted
    assert await store.bury(NOW, latest=Millis(FAR + 1), sparing=TWO, limit=9) == []
    assert len(await store.gateways(NOW)) == 2
    await store.bury(NOW, latest=FAR, sparing=TWO, limit=9)
    assert [view.gateway_id for view in await store.gateways(NOW)] == [TWO]
    account = await store.budget(ANN)
    assert account is not None
    assert account.held == ZERO


async def the_dead_are_charged_with_all_they_held(store: GatewayStore) -> None:
    await store.put_budget(budget())
    await store.enter(ONE, LATER)
    await store.enter(TWO, Millis(LATER * 2))
    assert await draw(store, 1, 60) == Amount(60, 0)
    lost = call(1, outcome=Outcome.LOST)
    await post(store, 2, opened=(Flight(lost, Amount(25, 0), (ANN,)), Flight(call(2), Amount(5, 0), (ANN,))))
    await post(store, 3, closed=(call(2).call_id,), calls=(call(2),), spends=(Spend(ANN, Amount(1, 0), Amount(5, 0)),))
    assert await store.flights_count(PROJECT, AgentId("ann"), besides=TWO) == 1
    assert await store.flights_count(PROJECT, AgentId("ann"), besides=ONE) == 0
    assert [flight.call for flight in await store.flights(PROJECT, None, 9)] == [lost]
    assert await store.flights_of(PROJECT, RunId("run"), 9) == [lost.call_id]
    assert await store.flights_of(ProjectId("other"), RunId("run"), 9) == []
    assert await store.flights_of(PROJECT, RunId("ru"), 9) == []
    assert [view.gateway_id for view in await store.gateways(NOW)] == [ONE, TWO]
    assert await store.bury(NOW, latest=FAR, sparing=TWO, limit=9) == []
    assert await store.bury(LATER, latest=FAR, sparing=ONE, limit=9) == []
    buried = await store.bury(LATER, latest=FAR, sparing=TWO, limit=9)
    assert len(buried) == 2
    unwritten = buried[1]
    assert buried[0] == lost
    assert (unwritten.agent_id, unwritten.outcome, unwritten.usage.tokens) == ("ann", Outcome.LOST, 30)
    assert await store.bury(LATER, latest=FAR, sparing=TWO, limit=9) == []
    account = await store.budget(ANN)
    assert account is not None
    assert (account.spent, account.held) == (Amount(56, 0), ZERO)
    assert not (await post(store, 4, spends=(Spend(ANN, Amount(9, 0), ZERO),))).alive
    assert (await store.budget(ANN)) == account
    logged = {one.call_id for one in await store.calls(CallFilter(project=PROJECT), 9)}
    assert logged == {lost.call_id, call(2).call_id, unwritten.call_id}


async def calls_are_found_newest_first(store: GatewayStore) -> None:
    await store.enter(ONE, LATER)
    made = [
        *(call(number, agent="ann" if number < 6 else "bob") for number in range(1, 9)),
        call(9, at=LATER, outcome=Outcome.REFUSED),
    ]
    await post(store, 1, calls=tuple(made))

    async def found(limit: int = 99, **wanted: object) -> list[int]:
        listed = await store.calls(replace(CallFilter(project=PROJECT), **wanted), limit)
        return [one.usage.tokens_out for one in listed]

    assert await found() == [9, 8, 7, 6, 5, 4, 3, 2, 1]
    assert await found(2) == [9, 8]
    assert await found(before=made[3].call_id) == [3, 2, 1]
    assert await found(agent_id="bob") == [8, 7, 6]
    assert await found(run_id="run", agent_id="bob") == [7]
    assert await found(run_id="run") == [9, 7, 5, 3, 1]
    assert await found(outcome=Outcome.REFUSED) == [9]
    assert await found(model="m-1") == [7, 4, 1]
    assert await found(since_ms=LATER) == [9]
    assert (await store.calls(CallFilter(project=PROJECT), 1))[0] == made[-1]
    assert await store.calls(CallFilter(project=ProjectId("other")), 9) == []
    spent = await store.outlays(PROJECT, Millis(0), LATER)
    assert {agent: outlay.calls for agent, outlay in spent.items()} == {"ann": 5, "bob": 3}
    assert sum(outlay.cost_micros for outlay in spent.values()) == sum(one.cost_micros or 0 for one in made[:8])
    assert sum(outlay.calls for outlay in (await store.outlays(PROJECT, LATER, Millis(LATER + 1))).values()) == 1
    ann, lost = (PROJECT, AgentId("ann")), call(10, at=LATER, outcome=Outcome.LOST)
    await post(store, 2, calls=(lost,))
    assert await store.logged(ann, Millis(0)) == (5 * 10 + 15 + 19 + 20, 1)
    assert await store.logged(ann, Millis(LATER + 1)) == (0, 0)
    before = CallId(call_of(scope_floor(LATER)))
    assert [await store.expire_calls(before, 5), await store.expire_calls(before, 5)] == [5, 3]
    assert await found() == [10, 9]


async def any_name_can_be_kept(store: GatewayStore) -> None:
    await store.enter(ONE, LATER)
    odd = Call(
        call_id=call(1).call_id,
        project=PROJECT,
        agent_id=AgentId("ann"),
        upstream="openai",
        api=Api.OPENAI_CHAT,
        path="/a\x00b",
        model="m\x00odel \N{SNOWMAN} '; DROP TABLE calls",
        outcome=Outcome.FAILED,
        status=502,
        started_at_ms=NOW,
        cost_micros=None,
    )
    await post(store, 1, calls=(odd,))
    assert await store.calls(CallFilter(project=PROJECT), 9) == [odd]


CHECKS: tuple[Check, ...] = (
    policies_are_kept_under_a_version_that_grows,
    policies_that_fit_go_together,
    bounds_that_were_lowered_allow_what_was_used_before,
    a_budget_keeps_what_was_spent_when_its_bounds_change,
    what_is_drawn_is_held_and_nobody_elses,
    many_who_draw_at_once_never_pass_the_bound,
    a_posting_that_is_repeated_changes_nothing,
    room_is_counted_by_the_second_for_all_gateways,
    many_who_pace_at_once_never_pass_the_limit,
    a_lease_from_a_clock_that_was_wrong_ends,
    the_dead_are_charged_with_all_they_held,
    calls_are_found_newest_first,
    any_name_can_be_kept,
)
