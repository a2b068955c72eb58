"""However calls are spread over gateways and time: a minute holds no more than the limit, and one gateway all of it."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from homeostat.adapters.stores.postgres import PostgresEngine, PostgresGateway
from homeostat.adapters.stores.sqlite import SqliteEngine
from homeostat.adapters.stores.sqlite.gateway import SqliteGateway
from homeostat.adapters.upstreams.simulated.faults import FaultyUpstream
from homeostat.core.ids import DEFAULT_PROJECT
from homeostat.core.limits import RATE_WINDOW_SECONDS
from homeostat.core.ports.gateway import GatewayStore
from homeostat.core.records.call import CallFilter, Outcome
from homeostat.core.records.policy import Action, PolicyId
from homeostat.testing.clock import ManualClock
from homeostat.testing.gateways import INSTANT, Booth, booth

OpenStore = Callable[[], AbstractAsyncContextManager[GatewayStore]]
numbers = itertools.count(1)


@dataclass(frozen=True)
class Burst:
    """Calls that come at once, and how long it is until the next ones do."""

    gateways: tuple[int, ...]
    max_tokens: int | None
    fault: str
    wait_seconds: float


HISTORY = [Burst((0,), None, "", 58.9), Burst((1, 1, 0), 20, "", 1.1), Burst((0, 1), 9, "", 0)]
bursts = st.lists(
    st.builds(
        Burst,
        gateways=st.lists(st.integers(0, 1), min_size=1, max_size=8).map(tuple),
        max_tokens=st.none() | st.integers(1, 200),
        fault=st.sampled_from(("", "", "error=500", "refuse=1", "cut=0")),
        wait_seconds=st.sampled_from((0.0, 0.3, 0.9, 1.1, 20.0, 58.9, 61.0)),
    ),
    min_size=1,
    max_size=8,
)


async def ask(desk: Booth, burst: Burst) -> int:
    cap: dict[str, Any] = {} if burst.max_tokens is None else {"max_tokens": burst.max_tokens}
    return (await desk.chat("word", headers={"x-simulate": burst.fault} if burst.fault else {}, **cap)).status


async def spread(store: GatewayStore, history: list[Burst], requests: int, tokens: int) -> None:
    clock = ManualClock()
    number = next(numbers)
    clock.advance(number * 10_000)  # on a store that other histories have used as well
    began = clock.now_ms()
    async with (
        booth(store=store, upstream=FaultyUpstream(pace=INSTANT), clock=clock) as one,
        booth(store=store, upstream=FaultyUpstream(pace=INSTANT), clock=clock, bus=one.bus) as two,
    ):
        name = f"rate-{number}"
        await one.put(Action.RATE_LIMIT, policy_id=name, requests_per_minute=requests, tokens_per_minute=tokens)
        for burst in history:
            await asyncio.gather(*(ask((one, two)[gateway], burst) for gateway in burst.gateways))
            await one.gateway.clerk.flush()
            await two.gateway.clerk.flush()
            clock.advance(burst.wait_seconds)
        await one.gateway.drop_policy(DEFAULT_PROJECT, PolicyId(name))
    made = await store.calls(CallFilter(project=DEFAULT_PROJECT, since_ms=began), 500)
    passed = [(call.started_at_ms / 1000, call.usage.tokens) for call in made if call.outcome is not Outcome.REFUSED]
    for end, _ in passed:
        minute = [used for at, used in passed if end - RATE_WINDOW_SECONDS < at <= end]
        assert len(minute) <= requests, "no minute holds more requests"
        assert sum(minute) <= tokens, "nor more tokens"


async def alone(store: GatewayStore, requests: int, asked: int, at: int) -> None:
    clock = ManualClock()
    number = next(numbers)
    clock.advance(number * 10_000)
    async with (
        booth(store=store, clock=clock) as one,
        booth(store=store, clock=clock, bus=one.bus) as two,
    ):
        name = f"rate-{number}"
        await one.put(Action.RATE_LIMIT, policy_id=name, requests_per_minute=requests)
        desk = (one, two)[at]
        heard = [(await desk.chat()).status for _ in range(asked // 2)]
        heard += [answer.status for answer in await asyncio.gather(*(desk.chat() for _ in range(asked - asked // 2)))]
        await one.gateway.drop_policy(DEFAULT_PROJECT, PolicyId(name))
    assert heard.count(200) == min(requests, asked), "whoever only meets one gateway gets all of the limit there"
    assert heard.count(200) + heard.count(429) == asked


@asynccontextmanager
async def on_sqlite() -> AsyncGenerator[GatewayStore, None]:
    engine = SqliteEngine(None)
    await engine.open()
    try:
        yield SqliteGateway(engine)
    finally:
        await engine.close()


@pytest.fixture(params=["sqlite", "postgres"])
def keeper(request: pytest.FixtureRequest) -> tuple[OpenStore, int]:
    """A store, and how many histories are affordable on it."""
    if request.param == "sqlite":
        return on_sqlite, 40
    url: str = request.getfixturevalue("postgres_url")

    @asynccontextmanager
    async def on_postgres() -> AsyncGenerator[GatewayStore, None]:
        engine = PostgresEngine(url)
        await engine.open()
        try:
            yield PostgresGateway(engine)
        finally:
            await engine.close()

    return on_postgres, 12


def test_always_a_minute_of_all_gateways_holds_no_more_than_the_limit(keeper: tuple[OpenStore, int]) -> None:
    open_store, examples = keeper

    @settings(max_examples=examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @example(
        history=[Burst((0,), None, "", 58.9), Burst((1, 1, 0), 20, "", 1.1), Burst((0, 1), 9, "", 0)],
        requests=2,
        tokens=900,
    )
    @given(history=bursts, requests=st.integers(1, 60), tokens=st.integers(100, 40_000))
    def law(history: list[Burst], requests: int, tokens: int) -> None:
        async def scene() -> None:
            async with open_store() as store:
                await spread(store, history, requests, tokens)

        asyncio.run(scene())

    law()


def test_always_one_gateway_gives_all_of_the_limit(keeper: tuple[OpenStore, int]) -> None:
    open_store, examples = keeper

    @settings(max_examples=examples // 2, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(requests=st.integers(1, 70), asked=st.integers(1, 90), at=st.integers(0, 1))
    def law(requests: int, asked: int, at: int) -> None:
        async def scene() -> None:
            async with open_store() as store:
                await alone(store, requests, asked, at)

        asyncio.run(scene())

    law()
